//! Lines out of a stream of bytes.
//!
//! 1. A line ends with `\n` or `\r\n`. A `\r` anywhere else is a byte like any other; but at the very end of
//!    the stream it is taken for the half of a line end that has come, and is no part of the line.
//! 2. No byte is looked at twice for the end of its line, however small the pieces are it comes in: a
//!    line that comes byte by byte costs as much per byte as one that comes whole.
//! 3. Not more than a line's limit is kept. Of a line beyond it everything up to its end is thrown away as
//!    it comes; that is one error, and the next line is decoded as any other.
//! 4. What it gives, and which errors, does not depend on how the bytes were cut.

use std::fmt;
use std::mem;

use bytes::{Buf, Bytes};
use memchr::memchr;
use waterwheel_channel::{Decode, Decoder, Inbound, Stage, Then};
use waterwheel_executor::Error;

use crate::text::utf8::Utf8;

/// Gives the lines of a stream of bytes, as [`Bytes`] that are parts of what was read: no copy, and no
/// allocation. A line ends with `\n` or `\r\n`.
///
/// ```
/// use waterwheel_codec::LineDecoder;
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// DecoderVerifier::new(|| LineDecoder::new(80))
///     .gives(b"first\n", ["first".into()])
///     .gives(b"second\r\n\n", ["second".into(), "".into()])
///     .gives(b"cut off", [])
///     .verify();
/// ```
///
/// A line that is longer than the limit is an error, [`LineTooLong`], which goes to the `on_error` of the
/// handlers behind; what is left of it is thrown away as it comes, and the next line is given as any other.
///
/// A line that is kept for long keeps the block it was read into, up to 64 KiB of it:
/// [`Bytes::copy_from_slice`] makes one that does not. A [text](Self::text) is a copy already.
#[derive(Clone, Debug)]
pub struct LineDecoder {
    limit: usize,
    fail_fast: bool,
    keep_ends: bool,
    unfinished: Unfinished,
    /// There is no line end among so many bytes at the front of what was left last time.
    searched: usize,
    /// The line is too long, and so many bytes of it are gone.
    discarded: Option<usize>,
}

/// Lines of text, as a handler: see [`LineDecoder::text`].
pub type TextLines = Inbound<Then<Decode<LineDecoder>, Utf8>>;

impl LineDecoder {
    /// Of lines up to so many bytes long, their ends not counted.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            fail_fast: false,
            keep_ends: false,
            unfinished: Unfinished::Drop,
            searched: 0,
            discarded: None,
        }
    }

    /// Tells that a line is too long as soon as that is so. Otherwise it is told when the line ends: only
    /// then it is known how long it was, and a line without end is never told of.
    #[must_use]
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Gives lines with their ends, as they came.
    #[must_use]
    pub fn keep_ends(mut self) -> Self {
        self.keep_ends = true;
        self
    }

    /// Gives the last line also if the stream ends before it does. Otherwise it is dropped: whoever was
    /// cut off in the middle of `DELETE 1000` has not said `DELETE 10`.
    #[must_use]
    pub fn give_unfinished(mut self) -> Self {
        self.unfinished = Unfinished::Give;
        self
    }

    /// Makes an error, [`LineUnfinished`], of a last line that the stream ends before it does.
    #[must_use]
    pub fn fail_unfinished(mut self) -> Self {
        self.unfinished = Unfinished::Fail;
        self
    }

    /// A handler that gives the lines as `String`s. One that is not UTF-8 is an error,
    /// [`NotUtf8`](crate::NotUtf8), and the next one is given as any other.
    ///
    /// ```
    /// # use waterwheel_channel::{Edit, PipelineError};
    /// use waterwheel_codec::{LineDecoder, LineEncoder};
    ///
    /// /// `String`s in, and out.
    /// fn speak_lines(edit: &mut Edit<'_>) -> Result<(), PipelineError> {
    ///     edit.add_codec("lines", LineDecoder::new(1024).fail_fast().text(), LineEncoder::new())?;
    ///     Ok(())
    /// }
    /// # let _ = speak_lines;
    /// ```
    #[must_use]
    pub fn text(self) -> TextLines {
        Inbound(Decode::new(self).then(Utf8))
    }

    /// The line end is there.
    #[inline]
    fn end(&mut self, end: usize, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        self.searched = 0;
        let length = without_cr(&buf[..end]);
        if length > self.limit || self.discarded.is_some() {
            buf.advance(end + 1);
            return self.end_too_long(length);
        }
        let given = if self.keep_ends { end + 1 } else { length };
        let line = buf.split_to(given);
        buf.advance(end + 1 - given);
        Ok(Some(line))
    }

    /// The line is not over.
    fn go_on(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        // A `\r` at the end may be the first half of a line end: it stays until more is known.
        let length = without_cr(buf);
        let before = self.discarded;
        if before.is_some() || length > self.limit {
            buf.advance(length);
            self.discarded = Some(before.unwrap_or(0).saturating_add(length));
        }
        self.searched = buf.len();
        let found_out = before.is_none() && self.discarded.is_some();
        if found_out && self.fail_fast { Err(self.too_long(length)) } else { Ok(None) }
    }

    /// A line that is too long is over, after so many bytes more.
    #[cold]
    fn end_too_long(&mut self, length: usize) -> Result<Option<Bytes>, Error> {
        match self.discarded.take() {
            Some(_) if self.fail_fast => Ok(None), // It was told.
            gone => Err(self.too_long(gone.unwrap_or(0).saturating_add(length))),
        }
    }

    fn too_long(&self, length: usize) -> Error {
        let length = (!self.fail_fast).then_some(length);
        Error::new(LineTooLong { limit: self.limit, length })
    }
}

impl Decoder for LineDecoder {
    type Out = Bytes;

    #[inline]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        match memchr(b'\n', &buf[self.searched..]) {
            Some(at) => self.end(self.searched + at, buf),
            None => self.go_on(buf),
        }
    }

    /// A line that may become whole, and the first half of its end. What is longer is thrown away as it comes.
    fn max_unread(&self) -> usize {
        self.limit.saturating_add(1)
    }

    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        let mut rest = mem::take(buf);
        let length = without_cr(&rest);
        if self.discarded.is_some() {
            return self.end_too_long(length);
        }
        match self.unfinished {
            _ if rest.is_empty() => Ok(None),
            Unfinished::Drop => Ok(None),
            Unfinished::Give if self.keep_ends => Ok(Some(rest)),
            Unfinished::Give => Ok(Some(rest.split_to(length))),
            Unfinished::Fail => Err(Error::new(LineUnfinished { length })),
        }
    }
}

/// How long a line is without the first half of a `\r\n`.
fn without_cr(line: &[u8]) -> usize {
    line.len() - usize::from(line.ends_with(b"\r"))
}

/// How a last line without an end is treated.
#[derive(Clone, Copy, Debug)]
enum Unfinished {
    Drop,
    Give,
    Fail,
}

/// The stream has ended in the middle of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the last line has no end: {length} bytes are not taken for a line")]
pub struct LineUnfinished {
    /// How many bytes of it came.
    pub length: usize,
}

/// A line is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong {
    /// How long it may be.
    pub limit: usize,
    /// How long it is; `None` if that is told [before it ends](LineDecoder::fail_fast).
    pub length: Option<usize>,
}

impl fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            Some(length) => write!(f, "a line is {length} bytes long, and may be {}", self.limit),
            None => write!(f, "a line is longer than the {} bytes it may be", self.limit),
        }
    }
}

impl std::error::Error for LineTooLong {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it does not look at cannot change its mind: everything but the newest byte is a line end, and
    /// it does not notice.
    #[test]
    fn c15_no_byte_is_looked_at_twice() {
        const LINE: usize = 64 * 1024;
        let mut bytes = vec![b'\n'; LINE];
        bytes.push(b'x');
        let bytes = Bytes::from(bytes);
        let mut decoder = LineDecoder::new(LINE);
        for length in 1..=LINE {
            let mut seen = bytes.slice(LINE + 1 - length..);
            assert_eq!(decoder.decode(&mut seen).unwrap(), None, "at {length} bytes");
            assert_eq!((seen.len(), decoder.searched), (length, length));
        }
        let mut whole = Bytes::from([&bytes[..LINE - 1], b"x\n"].concat());
        assert_eq!(decoder.decode(&mut whole).unwrap().unwrap().len(), LINE);
    }

    #[test]
    fn c15_of_a_line_that_is_too_long_nothing_is_kept() {
        let mut decoder = LineDecoder::new(4);
        for _ in 0..1000 {
            let mut buf = Bytes::from_static(b"longer than four");
            assert_eq!(decoder.decode(&mut buf).unwrap(), None);
            assert!(buf.is_empty());
        }
        let mut buf = Bytes::from_static(b"!\r\nnext\n");
        let error = decoder.decode(&mut buf).unwrap_err();
        assert_eq!(error.to_string(), "a line is 16001 bytes long, and may be 4");
        assert_eq!(decoder.decode(&mut buf).unwrap().unwrap(), "next");
        assert!(buf.is_empty());
    }
}
