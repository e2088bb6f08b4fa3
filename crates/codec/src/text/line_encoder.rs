//! Lines into a stream of bytes.

use bytes::{BufMut, Bytes};
use memchr::memchr;
use waterwheel_channel::{
    Completion, Ctx, EncodeBuffer, Events, Handler, HandlerResult, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

/// Writes messages as lines: `String`, `&'static str` and [`Bytes`], each with a line end behind it.
/// Anything else passes.
///
/// A message with a line end in it fails its write with [`EmbeddedLineEnd`], and none of it is sent.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_codec::LineEncoder;
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("lines", LineEncoder::new())?;
///     Ok(())
/// })?;
/// let failed = channel.on_loop(|channel| {
///     channel.send("200 ok");
///     channel.send(format!("{} users", 7));
///     channel.send(Bytes::from_static(b"bye"));
///     channel.write_and_flush("two\nlines")
/// });
/// let sent: Vec<Bytes> = std::iter::from_fn(|| channel.read_outbound()).collect();
/// assert_eq!(sent.concat(), b"200 ok\n7 users\nbye\n");
/// assert_eq!(
///     failed.join().unwrap_err().to_string(),
///     "a line of 9 bytes has a line end in it, at byte 3"
/// );
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Debug)]
pub struct LineEncoder {
    end: &'static [u8],
    buffer: EncodeBuffer,
}

impl LineEncoder {
    /// Lines end with `\n`.
    #[must_use]
    pub fn new() -> Self {
        Self { end: b"\n", buffer: EncodeBuffer::default() }
    }

    /// Lines end with `\r\n`, as most protocols of the Internet's have it.
    #[must_use]
    pub fn crlf() -> Self {
        Self { end: b"\r\n", buffer: EncodeBuffer::default() }
    }
}

impl Default for LineEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Handler for LineEncoder {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        const LINES: &[TypeTag] =
            &[TypeTag::of::<Bytes>(), TypeTag::of::<String>(), TypeTag::of::<&'static str>()];
        Signature::transparent().outbound(LINES, TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let Some(line) = as_line(&msg) else {
            ctx.write_with(msg, done.take());
            return Ok(());
        };
        check(line)?;
        let bytes = self.buffer.fill(|dst| {
            dst.reserve(line.len() + self.end.len());
            dst.put_slice(line);
            dst.put_slice(self.end);
            Ok(())
        })?;
        ctx.write_with(bytes, done.take());
        Ok(())
    }
}

fn as_line(msg: &Msg) -> Option<&[u8]> {
    if let Some(bytes) = msg.get::<Bytes>() {
        Some(bytes)
    } else if let Some(text) = msg.get::<String>() {
        Some(text.as_bytes())
    } else {
        msg.get::<&'static str>().map(|text| text.as_bytes())
    }
}

fn check(line: &[u8]) -> HandlerResult {
    // A `\r` at the end would be taken for a part of the line end.
    let found = memchr(b'\n', line).or_else(|| line.ends_with(b"\r").then(|| line.len() - 1));
    match found {
        Some(at) => Err(Error::new(EmbeddedLineEnd { at, length: line.len() })),
        None => Ok(()),
    }
}

/// A message that was to be one line has a line end in it: a `\n`, or a `\r` at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of {length} bytes has a line end in it, at byte {at}")]
pub struct EmbeddedLineEnd {
    /// Where; the first byte is 0.
    pub at: usize,
    /// How long the line is.
    pub length: usize,
}
