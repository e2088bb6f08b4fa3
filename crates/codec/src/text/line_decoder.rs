//! Decodes lines.
//!
//! 1. A line ends with `\n` or `\r\n`. A `\r` elsewhere is an ordinary byte, except at the end of the stream, where it
//!    counts as the first half of a line end and is not part of the line.
//! 2. No byte is scanned twice, however small the reads are: a line that arrives byte by byte costs as much per byte as
//!    one that arrives whole.
//! 3. At most one line of maximum length is kept. A longer line is discarded as it arrives: one error, then the next
//!    line is decoded normally.
//! 4. Lines and errors do not depend on how the stream is split.

use std::fmt;
use std::mem;

use bytes::{Buf, Bytes};
use memchr::memchr;
use waterwheel_channel::{Decode, Decoder, Inbound, Stage, Then};
use waterwheel_executor::Error;

use crate::text::utf8::Utf8;

/// Decodes lines as [`Bytes`], slices of the read buffer: no copy and no allocation. A line ends with `\n` or `\r\n`.
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
/// A line beyond the limit is the error [`LineTooLong`], passed to `on_error` of later handlers. The line is discarded
/// as it arrives, and the next line is decoded normally.
///
/// A stored line keeps its read block of up to 64 KiB alive; [`Bytes::copy_from_slice`] makes an independent copy. Lines
/// as [text](Self::text) are copies already.
#[derive(Clone, Debug)]
pub struct LineDecoder {
    limit: usize,
    fail_fast: bool,
    keep_ends: bool,
    unfinished: Unfinished,
    /// The number of bytes at the front of the buffer without a line end.
    searched: usize,
    /// The number of discarded bytes of a line that is too long; `None` otherwise.
    discarded: Option<usize>,
}

/// Handler that decodes lines of text: see [`LineDecoder::text`].
pub type TextLines = Inbound<Then<Decode<LineDecoder>, Utf8>>;

impl LineDecoder {
    /// Creates a decoder for lines of at most `limit` bytes, line ends not counted.
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

    /// Reports a line that is too long as soon as it exceeds the limit. Default: at the line end; a
    /// line that never ends is then never reported.
    #[must_use]
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Keeps the line ends in decoded lines.
    #[must_use]
    pub fn keep_ends(mut self) -> Self {
        self.keep_ends = true;
        self
    }

    /// Decodes a last line without a line end. Default: dropped, because `DELETE 10` may be the start of `DELETE 1000`.
    #[must_use]
    pub fn give_unfinished(mut self) -> Self {
        self.unfinished = Unfinished::Give;
        self
    }

    /// Reports a last line without a line end as the error [`LineUnfinished`].
    #[must_use]
    pub fn fail_unfinished(mut self) -> Self {
        self.unfinished = Unfinished::Fail;
        self
    }

    /// Returns a handler that decodes lines as `String`s. Invalid UTF-8 is the error [`NotUtf8`](crate::NotUtf8); the next
    /// line is decoded normally.
    ///
    /// ```
    /// # use waterwheel_channel::{Edit, PipelineError};
    /// use waterwheel_codec::{LineDecoder, LineEncoder};
    ///
    /// /// Lines of text in both directions.
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

    /// Handles a line whose end has arrived.
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

    /// Handles a line whose end has not arrived.
    fn go_on(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        // A trailing `\r` may be the first half of a line end: it stays in the buffer.
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

    /// Ends a line that is too long; its last `length` bytes were in the buffer.
    #[cold]
    fn end_too_long(&mut self, length: usize) -> Result<Option<Bytes>, Error> {
        match self.discarded.take() {
            Some(_) if self.fail_fast => Ok(None), // Already reported.
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

    /// Bounds the unread bytes: a line of maximum length and a `\r`. Longer lines are discarded as they arrive.
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

/// Returns the length of a line without a trailing `\r`.
fn without_cr(line: &[u8]) -> usize {
    line.len() - usize::from(line.ends_with(b"\r"))
}

/// The treatment of a last line without a line end.
#[derive(Clone, Copy, Debug)]
enum Unfinished {
    Drop,
    Give,
    Fail,
}

/// The stream ended in the middle of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream ended after {length} bytes of a line without a line end")]
pub struct LineUnfinished {
    /// Bytes of the line that arrived.
    pub length: usize,
}

/// A line exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong {
    /// The limit in bytes.
    pub limit: usize,
    /// Length of the line; `None` if reported [before its end](LineDecoder::fail_fast).
    pub length: Option<usize>,
}

impl fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            Some(length) => {
                write!(f, "a line has {length} bytes; at most {} are allowed", self.limit)
            }
            None => write!(f, "a line is longer than {} bytes", self.limit),
        }
    }
}

impl std::error::Error for LineTooLong {}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes but the newest are line ends. A decoder that scanned a byte twice would find one.
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
        assert_eq!(error.to_string(), "a line has 16001 bytes; at most 4 are allowed");
        assert_eq!(decoder.decode(&mut buf).unwrap().unwrap(), "next");
        assert!(buf.is_empty());
    }
}
