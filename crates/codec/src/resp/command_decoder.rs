//! Decodes RESP commands from a byte stream.

use std::mem;

use bytes::{Buf, Bytes};
use memchr::memchr;
use waterwheel_channel::{Decoder, Quoted};
use waterwheel_executor::Error;

use super::command::{RespCommand, Spans};
use super::error::RespError;
use super::inline::split;
use super::limits::RespLimits;
use super::scan::too_long;
use super::token::{bulk, integer, line_end, size};

/// Maximum length of a line that holds the number of arguments or the length of an argument.
const SHORT_LINE: usize = 24;

/// Decodes the commands of a RESP stream, as a server reads them: arrays of bulk strings, as programs send them, and
/// inline commands, as people type them. Empty commands are skipped.
///
/// A command of up to six arguments is decoded without an allocation.
///
/// ```
/// use waterwheel_codec::{RespCommand, RespCommandDecoder, RespLimits};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// DecoderVerifier::new(|| RespCommandDecoder::new(RespLimits::default()))
///     .gives(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", [RespCommand::new(&["GET", "a"])])
///     .gives(b"set a 'b c'\r\n\r\n", [RespCommand::new(&["set", "a", "b c"])])
///     .fails(b"*1\r\n:1", "RESP: an argument of a command begins with ':' instead of '$'")
///     .verify();
/// ```
#[derive(Clone, Debug, Default)]
pub struct RespCommandDecoder {
    limits: RespLimits,
    /// The number of bytes scanned completely.
    at: usize,
    /// The number of bytes searched for a line end.
    searched: usize,
    /// The number of arguments left to scan.
    left: usize,
    spans: Spans,
}

impl RespCommandDecoder {
    /// Creates a decoder with these limits.
    #[must_use]
    pub fn new(mut limits: RespLimits) -> Self {
        limits.message = limits.message.min(u32::MAX as usize);
        Self { limits, ..Self::default() }
    }

    /// Removes the next complete command from the front of `buf`. Returns `None` after consuming an
    /// empty command.
    ///
    /// # Errors
    /// The bytes at the front are not a command. Nothing is consumed.
    #[inline]
    pub fn next_command(&mut self, buf: &mut Bytes) -> Result<Option<RespCommand>, RespError> {
        let found = match buf.first() {
            None => return Ok(None),
            Some(b'*') => self.scan(&buf[..buf.len().min(self.limits.message)]),
            Some(_) => return self.inline(buf),
        };
        match found {
            Ok(true) => {
                let (wire, spans) = (buf.split_to(self.at), self.spans.take());
                self.reset();
                Ok((spans.len() > 0).then(|| RespCommand::of_wire(wire, spans)))
            }
            Ok(false) if buf.len() <= self.limits.message => Ok(None),
            Ok(false) => {
                self.reset();
                Err(too_long(&self.limits))
            }
            Err(error) => {
                self.reset(); // The next call returns the same error.
                Err(error)
            }
        }
    }

    /// Scans an array of bulk strings. Returns true if it is complete.
    #[inline]
    fn scan(&mut self, buf: &[u8]) -> Result<bool, RespError> {
        if self.at == 0 {
            let Some(end) = line_end(buf, 0, &mut self.searched, SHORT_LINE)? else {
                return Ok(false);
            };
            self.left = self.count(&buf[1..end])?;
            self.at = end + 2;
        }
        while self.left > 0 {
            match buf.get(self.at) {
                None => return Ok(false),
                Some(b'$') => {}
                Some(other) => return Err(RespError::NotBulk { found: Quoted::new(&[*other]) }),
            }
            let Some(end) = line_end(buf, self.at, &mut self.searched, SHORT_LINE)? else {
                return Ok(false);
            };
            let line = &buf[self.at + 1..end];
            let Some(length) = size(line) else {
                let found = Quoted::new(line);
                return Err(RespError::Malformed { expected: "length", found });
            };
            let Some(span) = bulk(buf, end + 2, length, &self.limits)? else { return Ok(false) };
            self.at = span.end + 2;
            self.left -= 1;
            self.spans.push(span);
        }
        Ok(true)
    }

    /// Returns the number of arguments. A negative number counts as 0, as in Redis.
    fn count(&self, line: &[u8]) -> Result<usize, RespError> {
        let Some(count) = integer(line) else {
            let found = Quoted::new(line);
            return Err(RespError::Malformed { expected: "number of arguments", found });
        };
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        let limit = self.limits.elements;
        if count > limit { Err(RespError::TooMany { count, limit }) } else { Ok(count) }
    }

    #[cold]
    fn inline(&mut self, buf: &mut Bytes) -> Result<Option<RespCommand>, RespError> {
        let limit = self.limits.line.min(self.limits.message);
        let found = memchr(b'\n', &buf[self.searched..]).map(|found| self.searched + found);
        if found.unwrap_or(buf.len()) > limit {
            self.reset();
            return Err(RespError::TooLong { what: "an inline command", limit });
        }
        let Some(end) = found else {
            self.searched = buf.len();
            return Ok(None);
        };
        self.reset();
        let words = split(buf[..end].trim_ascii_end())?;
        buf.advance(end + 1);
        Ok((!words.is_empty()).then(|| RespCommand::new(&words)))
    }

    fn reset(&mut self) {
        (self.at, self.searched, self.left) = (0, 0, 0);
        self.spans = Spans::default();
    }
}

impl Decoder for RespCommandDecoder {
    type Out = RespCommand;

    #[inline]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<RespCommand>, Error> {
        self.next_command(buf).map_err(Error::new)
    }

    fn max_unread(&self) -> usize {
        self.limits.message
    }

    /// Fails if the stream ends in the middle of a command.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<RespCommand>, Error> {
        let before = buf.len();
        match self.decode(buf)? {
            None if !buf.is_empty() && buf.len() == before => {
                let unread = mem::take(buf).len();
                Err(Error::new(RespError::CutOff { unread }))
            }
            command => Ok(command),
        }
    }
}
