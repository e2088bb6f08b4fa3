//! Decodes RESP values from a byte stream.

use std::mem;

use bytes::Bytes;
use waterwheel_channel::Decoder;
use waterwheel_executor::Error;

use super::error::RespError;
use super::limits::RespLimits;
use super::scan::{Scan, ScannedValue};
use super::token::{AggregateKind, RespToken, token};
use super::value::RespValue;

/// Decodes the values of a RESP2 or RESP3 stream, as a client reads them.
///
/// Streamed strings and aggregates of unknown length are decoded like those of known length. Attributes are part of the
/// value that follows them.
///
/// ```
/// use waterwheel_codec::{RespDecoder, RespLimits, RespValue};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// DecoderVerifier::new(|| RespDecoder::new(RespLimits::default()))
///     .gives(b"+OK\r\n", [RespValue::simple("OK")])
///     .gives(
///         b"*2\r\n$5\r\nhello\r\n:7\r\n",
///         [RespValue::Array(vec![RespValue::bulk("hello"), RespValue::Integer(7)])],
///     )
///     .gives(b"%1\r\n+ok\r\n#t\r\n", [
///         RespValue::Map(vec![(RespValue::simple("ok"), RespValue::Boolean(true))]),
///     ])
///     .verify();
/// ```
///
/// A stored value keeps the read buffer alive: copy values that are stored for long.
#[derive(Clone, Debug, Default)]
pub struct RespDecoder {
    limits: RespLimits,
    scan: Scan,
}

impl RespDecoder {
    /// Creates a decoder with these limits.
    #[must_use]
    pub fn new(limits: RespLimits) -> Self {
        Self { limits, scan: Scan::default() }
    }

    /// Removes the next complete value from the front of `buf`.
    ///
    /// # Errors
    /// The bytes at the front are not a value. Nothing is consumed.
    #[inline]
    pub fn next_value(&mut self, buf: &mut Bytes) -> Result<Option<RespValue>, RespError> {
        match self.scan.run(buf, &self.limits) {
            Ok(None) => Ok(None),
            Ok(Some((found, length))) => {
                self.scan.reset();
                let message = buf.split_to(length);
                match found {
                    ScannedValue::Single(token) => Ok(single(token, &message)),
                    ScannedValue::Nested => {
                        ValueBuilder { message, at: 0, limits: &self.limits }.value().map(Some)
                    }
                }
            }
            Err(error) => {
                self.scan.reset(); // The next call returns the same error.
                Err(error)
            }
        }
    }
}

impl Decoder for RespDecoder {
    type Out = RespValue;

    #[inline]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<RespValue>, Error> {
        self.next_value(buf).map_err(Error::new)
    }

    fn max_unread(&self) -> usize {
        self.limits.message
    }

    /// Fails if the stream ends in the middle of a message.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<RespValue>, Error> {
        match self.decode(buf)? {
            None if !buf.is_empty() => {
                let unread = mem::take(buf).len();
                Err(Error::new(RespError::CutOff { unread }))
            }
            value => Ok(value),
        }
    }
}

/// Builds the values of a message that was scanned completely.
struct ValueBuilder<'a> {
    message: Bytes,
    at: usize,
    limits: &'a RespLimits,
}

impl ValueBuilder<'_> {
    /// Builds the next value. Recursive: the scan has checked the nesting depth.
    fn value(&mut self) -> Result<RespValue, RespError> {
        let value = match self.token()? {
            RespToken::OpenString => self.chunks()?,
            RespToken::Open(AggregateKind::Array, count) => RespValue::Array(self.values(count)?),
            RespToken::Open(AggregateKind::Set, count) => RespValue::Set(self.values(count)?),
            RespToken::Open(AggregateKind::Push, count) => RespValue::Push(self.values(count)?),
            RespToken::Open(AggregateKind::Map, count) => RespValue::Map(self.pairs(count)?),
            RespToken::Open(AggregateKind::Attribute, count) => return self.attributed(count),
            other => return single(other, &self.message).ok_or(CHANGED),
        };
        Ok(value)
    }

    /// Merges consecutive attributes, which belong to the same value.
    fn attributed(&mut self, count: Option<usize>) -> Result<RespValue, RespError> {
        let mut attributes = self.pairs(count)?;
        while self.message.get(self.at) == Some(&b'|') {
            let RespToken::Open(_, count) = self.token()? else { return Err(CHANGED) };
            attributes.extend(self.pairs(count)?);
        }
        Ok(RespValue::Attributed { attributes, value: Box::new(self.value()?) })
    }

    fn values(&mut self, count: Option<usize>) -> Result<Vec<RespValue>, RespError> {
        let mut values = Vec::with_capacity(count.unwrap_or(0));
        while count.is_none_or(|count| values.len() < count) && !self.closes(count)? {
            values.push(self.value()?);
        }
        Ok(values)
    }

    fn pairs(&mut self, count: Option<usize>) -> Result<Vec<(RespValue, RespValue)>, RespError> {
        let mut pairs = Vec::with_capacity(count.unwrap_or(0));
        while count.is_none_or(|count| pairs.len() < count) && !self.closes(count)? {
            pairs.push((self.value()?, self.value()?));
        }
        Ok(pairs)
    }

    /// Consumes the end marker of an aggregate of unknown length if it is the next token.
    fn closes(&mut self, count: Option<usize>) -> Result<bool, RespError> {
        let closes = count.is_none() && self.message.get(self.at) == Some(&b'.');
        if closes {
            self.token()?;
        }
        Ok(closes)
    }

    fn chunks(&mut self) -> Result<RespValue, RespError> {
        let mut first = Bytes::new();
        let mut joined = Vec::new();
        loop {
            match self.token()? {
                RespToken::Chunk(range) if range.is_empty() => break,
                RespToken::Chunk(range) if first.is_empty() => first = self.message.slice(range),
                RespToken::Chunk(range) => {
                    if joined.is_empty() {
                        joined.extend_from_slice(&first);
                    }
                    joined.extend_from_slice(&self.message[range]);
                }
                _ => return Err(CHANGED),
            }
        }
        Ok(RespValue::Bulk(if joined.is_empty() { first } else { joined.into() }))
    }

    fn token(&mut self) -> Result<RespToken, RespError> {
        let mut searched = 0;
        let found = token(&self.message, self.at, &mut searched, self.limits)?;
        let (token, end) = found.ok_or(CHANGED)?;
        self.at = end;
        Ok(token)
    }
}

/// Unreachable: the scan has verified the message, and its bytes cannot change.
const CHANGED: RespError =
    RespError::Misplaced { what: "a message that changed while it was read" };

/// Converts a token of a single value.
fn single(token: RespToken, message: &Bytes) -> Option<RespValue> {
    Some(match token {
        RespToken::Simple(text) => RespValue::Simple(message.slice(text)),
        RespToken::Error(text) => RespValue::Error(message.slice(text)),
        RespToken::Integer(value) => RespValue::Integer(value),
        RespToken::Null => RespValue::Null,
        RespToken::Boolean(value) => RespValue::Boolean(value),
        RespToken::Double(value) => RespValue::Double(value),
        RespToken::BigNumber(digits) => RespValue::BigNumber(message.slice(digits)),
        RespToken::Bulk(bytes) => RespValue::Bulk(message.slice(bytes)),
        RespToken::BulkError(bytes) => RespValue::BulkError(message.slice(bytes)),
        RespToken::Verbatim(range) => {
            let format = *message.get(range.clone())?.first_chunk()?;
            RespValue::Verbatim { format, text: message.slice(range.start + 4..range.end) }
        }
        RespToken::Open(..) | RespToken::OpenString | RespToken::Chunk(_) | RespToken::Close => {
            return None;
        }
    })
}
