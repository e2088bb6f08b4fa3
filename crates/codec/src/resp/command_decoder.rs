//! RESP commands out of a stream of bytes.

use std::mem;

use bytes::{Buf, Bytes};
use memchr::memchr;
use waterwheel_channel::Decoder;
use waterwheel_executor::Error;

use super::command::{RespCommand, Spans};
use super::error::RespError;
use super::inline::split;
use super::limits::RespLimits;
use super::scan::too_long;
use super::token::{bulk, integer, line_end, size};
use crate::quoted::Quoted;

/// The longest line that is a number of arguments or the length of one.
const SHORT_LINE: usize = 24;

/// Gives the commands of a stream of RESP: what a server reads. Those that are arrays of bulk strings, as programs send
/// them, and inline ones, as people type them. Empty ones are passed over.
///
/// A command of up to six arguments is given without an allocation.
///
/// ```
/// use waterwheel_codec::{RespCommand, RespCommandDecoder, RespLimits};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// DecoderVerifier::new(|| RespCommandDecoder::new(RespLimits::default()))
///     .gives(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", [RespCommand::new(&["GET", "a"])])
///     .gives(b"set a 'b c'\r\n\r\n", [RespCommand::new(&["set", "a", "b c"])])
///     .fails(b"*1\r\n:1", "RESP: an argument of a command begins with ':', and not with '$'")
///     .verify();
/// ```
#[derive(Clone, Debug, Default)]
pub struct RespCommandDecoder {
    limits: RespLimits,
    /// Up to here everything was looked at.
    at: usize,
    /// Up to here a line end was looked for.
    searched: usize,
    /// How many arguments are to come.
    left: usize,
    spans: Spans,
}

impl RespCommandDecoder {
    /// Makes a decoder of commands within these limits.
    #[must_use]
    pub fn new(mut limits: RespLimits) -> Self {
        limits.message = limits.message.min(u32::MAX as usize);
        Self { limits, ..Self::default() }
    }

    /// Takes the next command from the front of `buf`, if all of it is there. `None` with bytes consumed: an empty
    /// command was passed over.
    ///
    /// # Errors
    /// There is no command at the front. Nothing is consumed.
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
                self.reset(); // Asked again, it says the same.
                Err(error)
            }
        }
    }

    /// Looks for the end of an array of bulk strings. Returns whether it is there.
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

    /// Returns the number of arguments. Redis takes a negative one for none.
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

    /// Reports a command that the stream's end cuts off.
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
