//! Converts bytes to text lossily, and text to bytes (K02). [`Utf8`](crate::Utf8) is the strict conversion.

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, Emit, Events, Handler, HandlerResult, Msg, Signature, Stage, TypeTag,
};

/// Converts bytes to `String` with `U+FFFD` for invalid UTF-8: a stage after any frame decoder. [`Utf8`](crate::Utf8)
/// fails instead.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_channel::{Decode, Inbound, Stage};
/// use waterwheel_codec::{LineDecoder, LossyUtf8};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("text", Inbound(Decode::new(LineDecoder::new(80)).then(LossyUtf8)))?;
///     Ok(())
/// })?;
/// channel.write_inbound(Bytes::from_static(b"a\xffb\n"));
/// assert_eq!(channel.read_inbound::<String>().unwrap(), "a\u{fffd}b");
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LossyUtf8;

impl Stage for LossyUtf8 {
    type In = Bytes;
    type Out = String;

    #[inline]
    fn on<O: Emit<String>>(&mut self, bytes: Bytes, out: &mut O) -> HandlerResult {
        out.emit(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Writes `String` and `&'static str` as bytes, without a copy; other messages are passed on. Add it after the frame
/// encoder.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_codec::{LengthField, TextEncoder};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("frames", LengthField::new(1).prepender().unwrap())?;
///     edit.add_last("text", TextEncoder)?;
///     Ok(())
/// })?;
/// channel.write_outbound("grüß dich").join()?;
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "\x0bgrüß dich");
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TextEncoder;

impl Handler for TextEncoder {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        const TEXTS: &[TypeTag] =
            &[TypeTag::of::<Bytes>(), TypeTag::of::<String>(), TypeTag::of::<&'static str>()];
        Signature::transparent().outbound(TEXTS, TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let bytes = match msg.take::<String>() {
            Ok(text) => Bytes::from(text),
            Err(other) => match other.take::<&'static str>() {
                Ok(text) => Bytes::from_static(text.as_bytes()),
                Err(other) => {
                    ctx.write_with(other, done.take());
                    return Ok(());
                }
            },
        };
        ctx.write_with(bytes, done.take());
        Ok(())
    }
}
