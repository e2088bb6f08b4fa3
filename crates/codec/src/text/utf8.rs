//! Bytes as text.

use bytes::Bytes;
use waterwheel_channel::{Emit, HandlerResult, Stage};
use waterwheel_executor::Error;

/// Makes text of bytes: a stage behind a decoder of whichever frames they are. What is not UTF-8 is an
/// error, [`NotUtf8`]; the next message is decoded as any other.
///
/// ```
/// use std::convert::Infallible;
/// use waterwheel_channel::{Decode, Emit, HandlerResult, Inbound, Stage};
/// use waterwheel_codec::{LineDecoder, Utf8};
/// # use waterwheel_channel::Handler;
///
/// struct Shout;
///
/// impl Stage for Shout {
///     type In = String;
///     type Out = Infallible;
///
///     fn on<O: Emit<Infallible>>(&mut self, line: String, out: &mut O) -> HandlerResult {
///         out.ctx().write_and_flush(line.to_uppercase());
///         Ok(())
///     }
/// }
///
/// // One slot: a line is not put into a box on its way to the last stage.
/// let handler = Inbound(Decode::new(LineDecoder::new(80)).then(Utf8).then(Shout));
/// # let _: &dyn Handler = &handler;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Utf8;

impl Stage for Utf8 {
    type In = Bytes;
    type Out = String;

    #[inline]
    fn on<O: Emit<String>>(&mut self, bytes: Bytes, out: &mut O) -> HandlerResult {
        // A copy of its own size: to take the buffer over would keep all that was read with it.
        match str::from_utf8(&bytes) {
            Ok(text) => out.emit(text.to_owned()),
            Err(error) => Err(Error::new(NotUtf8 { at: error.valid_up_to(), length: bytes.len() })),
        }
    }
}

/// A message that should be text is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text of {length} bytes is not UTF-8 from byte {at} on")]
pub struct NotUtf8 {
    /// Up to here it is; the first byte is 0.
    pub at: usize,
    /// How long it is.
    pub length: usize,
}
