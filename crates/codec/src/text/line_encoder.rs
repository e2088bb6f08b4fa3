//! Writes lines.

use bytes::{BufMut, Bytes};
use memchr::memchr;
use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

/// Writes `String`, `&'static str` and [`Bytes`] as lines, each followed by a line end. Other messages are passed on.
///
/// The write of a message that contains a line end fails with [`EmbeddedLineEnd`], and nothing of it is sent.
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
///     "a line of 9 bytes contains a line end at byte 3"
/// );
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Debug)]
pub struct LineEncoder {
    end: &'static [u8],
}

impl LineEncoder {
    /// Creates an encoder that ends lines with `\n`.
    #[must_use]
    pub fn new() -> Self {
        Self { end: b"\n" }
    }

    /// Creates an encoder that ends lines with `\r\n`, as most Internet protocols do.
    #[must_use]
    pub fn crlf() -> Self {
        Self { end: b"\r\n" }
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
        ctx.write_encoded_with(done, |dst| {
            dst.reserve(line.len() + self.end.len());
            dst.put_slice(line);
            dst.put_slice(self.end);
            Ok(())
        })
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
    // A trailing `\r` would be read as part of the line end.
    let found = memchr(b'\n', line).or_else(|| line.ends_with(b"\r").then(|| line.len() - 1));
    match found {
        Some(at) => Err(Error::new(EmbeddedLineEnd { at, length: line.len() })),
        None => Ok(()),
    }
}

/// An outbound line contains a line end: a `\n`, or a trailing `\r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of {length} bytes contains a line end at byte {at}")]
pub struct EmbeddedLineEnd {
    /// Position of the line end, counted from 0.
    pub at: usize,
    /// Length of the line.
    pub length: usize,
}
