//! Tokens of a RESP message: a single value, or the header of an aggregate.

use std::ops::Range;

use memchr::memchr2;
use waterwheel_channel::Quoted;

use super::error::RespError;
use super::limits::RespLimits;

/// Maximum length of a line that is a length, a 64-bit number, a boolean or a null, including type byte and line end.
const SHORT_LINE: usize = 24;

/// A token; ranges refer to the scanned bytes.
#[derive(Clone, Debug)]
pub(super) enum RespToken {
    Simple(Range<usize>),
    Error(Range<usize>),
    Integer(i64),
    Null,
    Boolean(bool),
    Double(f64),
    BigNumber(Range<usize>),
    Bulk(Range<usize>),
    BulkError(Range<usize>),
    /// A verbatim string, with its format and the colon.
    Verbatim(Range<usize>),
    /// The header of an aggregate with its number of elements; `None` if an end marker follows them.
    Open(AggregateKind, Option<usize>),
    /// The header of a streamed string.
    OpenString,
    /// A chunk of a streamed string; an empty one is the last.
    Chunk(Range<usize>),
    /// The end marker of an aggregate of unknown length.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AggregateKind {
    Array,
    Set,
    Map,
    Push,
    Attribute,
}

/// Parses the token at `at`. Returns the token and its end, or `None` if it is incomplete. `searched` is the position up
/// to which no line end was found.
pub(super) fn token(
    buf: &[u8],
    at: usize,
    searched: &mut usize,
    limits: &RespLimits,
) -> Result<Option<(RespToken, usize)>, RespError> {
    let Some(&first) = buf.get(at) else { return Ok(None) };
    let most = match first {
        b'+' | b'-' | b',' | b'(' => limits.line,
        b'$' | b'!' | b'=' | b';' | b'*' | b'~' | b'%' | b'>' | b'|' | b':' | b'#' | b'_'
        | b'.' => SHORT_LINE,
        _ => return Err(RespError::UnknownType { found: Quoted::new(&[first]) }),
    };
    let Some(end) = line_end(buf, at, searched, most)? else { return Ok(None) };
    let (text, next) = (at + 1..end, end + 2);
    let line = &buf[text.clone()];
    let token = match first {
        b'+' => RespToken::Simple(text),
        b'-' => RespToken::Error(text),
        b':' => RespToken::Integer(integer(line).ok_or_else(|| malformed("integer", line))?),
        b',' => RespToken::Double(double(line).ok_or_else(|| malformed("double", line))?),
        b'(' if is_big_number(line) => RespToken::BigNumber(text),
        b'(' => return Err(malformed("big number", line)),
        b'#' => match line {
            b"t" => RespToken::Boolean(true),
            b"f" => RespToken::Boolean(false),
            _ => return Err(malformed("boolean", line)),
        },
        b'_' if line.is_empty() => RespToken::Null,
        b'_' => return Err(malformed("null", line)),
        b'.' if line.is_empty() => RespToken::Close,
        b'.' => return Err(malformed("end of a stream", line)),
        b'$' if line == b"?" => RespToken::OpenString,
        b'$' | b'!' | b'=' | b';' => return payload(buf, first, line, next, limits),
        b'*' if line == b"-1" => RespToken::Null,
        _ => open(first, line)?,
    };
    Ok(Some((token, next)))
}

/// Returns the position of the line end after `at`.
pub(super) fn line_end(
    buf: &[u8],
    at: usize,
    searched: &mut usize,
    most: usize,
) -> Result<Option<usize>, RespError> {
    let from = (*searched).max(at);
    let found = memchr2(b'\r', b'\n', &buf[from..]).map(|found| from + found);
    // The type byte is not counted. The excess depends on how the stream was split and is not reported.
    if found.unwrap_or(buf.len()) - at > most.saturating_add(1) {
        return Err(RespError::TooLong { what: "a line", limit: most });
    }
    let Some(end) = found else {
        *searched = buf.len();
        return Ok(None);
    };
    *searched = end;
    match buf.get(end + 1) {
        _ if buf[end] == b'\n' => Err(RespError::NoLineEnd { what: "line" }),
        None => Ok(None),
        Some(b'\n') => Ok(Some(end)),
        Some(_) => Err(RespError::NoLineEnd { what: "line" }),
    }
}

/// Parses a value with a length prefix if it is complete.
fn payload(
    buf: &[u8],
    first: u8,
    line: &[u8],
    from: usize,
    limits: &RespLimits,
) -> Result<Option<(RespToken, usize)>, RespError> {
    if first == b'$' && line == b"-1" {
        return Ok(Some((RespToken::Null, from)));
    }
    let Some(length) = size(line) else { return Err(malformed("length", line)) };
    if first == b';' && length == 0 {
        return Ok(Some((RespToken::Chunk(from..from), from)));
    }
    let Some(range) = bulk(buf, from, length, limits)? else { return Ok(None) };
    let end = range.end + 2;
    let token = match first {
        b'$' => RespToken::Bulk(range),
        b'!' => RespToken::BulkError(range),
        b';' => RespToken::Chunk(range),
        _ if length < 4 || buf[from + 3] != b':' => {
            return Err(malformed("verbatim string", &buf[range]));
        }
        _ => RespToken::Verbatim(range),
    };
    Ok(Some((token, end)))
}

/// Returns the `length` bytes at `from` if they and the following line end have arrived.
pub(super) fn bulk(
    buf: &[u8],
    from: usize,
    length: usize,
    limits: &RespLimits,
) -> Result<Option<Range<usize>>, RespError> {
    if length > limits.bulk {
        return Err(RespError::TooLong { what: "a bulk string", limit: limits.bulk });
    }
    let end = from.saturating_add(length).saturating_add(2);
    if end > limits.message {
        return Err(RespError::TooLong { what: "a message", limit: limits.message });
    }
    match buf.get(end - 2..end) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some(from..end - 2)),
        Some(_) => Err(RespError::NoLineEnd { what: "bulk string" }),
    }
}

fn open(first: u8, line: &[u8]) -> Result<RespToken, RespError> {
    let kind = match first {
        b'*' => AggregateKind::Array,
        b'~' => AggregateKind::Set,
        b'%' => AggregateKind::Map,
        b'>' => AggregateKind::Push,
        _ => AggregateKind::Attribute,
    };
    if line == b"?"
        && matches!(kind, AggregateKind::Array | AggregateKind::Set | AggregateKind::Map)
    {
        return Ok(RespToken::Open(kind, None));
    }
    match size(line) {
        Some(count) => Ok(RespToken::Open(kind, Some(count))),
        None => Err(malformed("number of values", line)),
    }
}

/// Parses a length or a number of elements: digits only.
pub(super) fn size(text: &[u8]) -> Option<usize> {
    let value = integer(text)?;
    if text[0].is_ascii_digit() { usize::try_from(value).ok() } else { None }
}

pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for digit in digits {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?;
        // Accumulates with the sign: `i64::MIN` has no positive counterpart.
        value = if negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(value)
}

/// Parses a double: `inf`, `-inf`, `nan`, or digits with an optional point and exponent, as Redis writes them.
fn double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" | b"+inf" => return Some(f64::INFINITY),
        b"-inf" => return Some(f64::NEG_INFINITY),
        b"nan" | b"-nan" => return Some(f64::NAN),
        _ => {}
    }
    let written = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    if !text.iter().all(written) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

pub(super) fn is_big_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cold]
pub(super) fn malformed(expected: &'static str, found: &[u8]) -> RespError {
    RespError::Malformed { expected, found: Quoted::new(found) }
}
