//! Strict UTF-8 text.

use bytes::Bytes;
use waterwheel_channel::{Emit, HandlerResult, Stage};
use waterwheel_executor::Error;

/// Converts bytes to `String`: a stage after any frame decoder. Invalid UTF-8 is the error [`NotUtf8`]; the next message
/// is converted normally.
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
/// // One slot: lines reach the last stage without being boxed.
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
        // Copied: a slice would keep the whole read buffer alive.
        match str::from_utf8(&bytes) {
            Ok(text) => out.emit(text.to_owned()),
            Err(error) => Err(Error::new(NotUtf8 { at: error.valid_up_to(), length: bytes.len() })),
        }
    }
}

/// A message is not valid UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text of {length} bytes is not valid UTF-8 from byte {at} on")]
pub struct NotUtf8 {
    /// Position of the first invalid byte, counted from 0.
    pub at: usize,
    /// Length of the message.
    pub length: usize,
}
