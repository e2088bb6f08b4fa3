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
use super::token::{bulk, integer, line_end, malformed, size};

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
                (self.at, self.searched) = (0, 0);
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
            let (count, next) = match short_number(buf, 1) {
                Some(header) => header,
                None => match line_end(buf, 0, &mut self.searched, SHORT_LINE)? {
                    Some(end) => (count(&buf[1..end])?, end + 2),
                    None => return Ok(false),
                },
            };
            let limit = self.limits.elements;
            if count > limit {
                return Err(RespError::TooMany { count, limit });
            }
            (self.left, self.at) = (count, next);
        }
        while self.left > 0 {
            match buf.get(self.at) {
                None => return Ok(false),
                Some(b'$') => {}
                Some(other) => return Err(RespError::NotBulk { found: Quoted::new(&[*other]) }),
            }
            let (length, from) = match short_number(buf, self.at + 1) {
                Some(header) => header,
                None => match line_end(buf, self.at, &mut self.searched, SHORT_LINE)? {
                    Some(end) => (length(&buf[self.at + 1..end])?, end + 2),
                    None => return Ok(false),
                },
            };
            let Some(span) = bulk(buf, from, length, &self.limits)? else { return Ok(false) };
            self.at = span.end + 2;
            self.left -= 1;
            self.spans.push(span);
        }
        Ok(true)
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

/// Parses the digits at `from` if they are few and their line is complete. Returns the number and the start of the next
/// line. Anything else is left to the slower functions, which know the errors.
#[inline]
fn short_number(buf: &[u8], from: usize) -> Option<(usize, usize)> {
    const MOST_DIGITS: usize = 7;
    let (mut value, mut at) = (0, from);
    loop {
        let byte = *buf.get(at)?;
        let digit = usize::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            let is_line_end = byte == b'\r' && buf.get(at + 1) == Some(&b'\n');
            return (is_line_end && at > from).then_some((value, at + 2));
        }
        if at - from == MOST_DIGITS {
            return None;
        }
        value = value * 10 + digit;
        at += 1;
    }
}

/// Parses the number of arguments. A negative number counts as 0, as in Redis.
fn count(line: &[u8]) -> Result<usize, RespError> {
    match integer(line) {
        Some(count) => Ok(usize::try_from(count.max(0)).unwrap_or(usize::MAX)),
        None => Err(malformed("number of arguments", line)),
    }
}

fn length(line: &[u8]) -> Result<usize, RespError> {
    size(line).ok_or_else(|| malformed("length", line))
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
