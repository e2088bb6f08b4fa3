//! Control lines: the verb and the arguments of an operation.

use std::ops::Range;

use memchr::memchr2;
use waterwheel_channel::Quoted;

use super::error::NatsError;
use super::limits::NatsLimits;

/// Maximum number of arguments of an operation: `HMSG subject id reply headers total`.
const MAX_WORDS: usize = 5;

/// The arguments of a control line, as ranges of it.
#[derive(Clone, Debug, Default)]
pub(super) struct ControlWords {
    ranges: [Range<usize>; MAX_WORDS],
    count: usize,
}

impl ControlWords {
    /// Splits `line[from..]` at spaces and tabs.
    pub(super) fn split(line: &[u8], from: usize) -> Result<Self, NatsError> {
        let mut words = Self::default();
        let mut at = from;
        while at < line.len() {
            if is_blank(line[at]) {
                at += 1;
                continue;
            }
            let end = memchr2(b' ', b'\t', &line[at..]).map_or(line.len(), |blank| at + blank);
            let Some(free) = words.ranges.get_mut(words.count) else {
                return Err(malformed("at most 5 arguments", line));
            };
            *free = at..end;
            words.count += 1;
            at = end;
        }
        Ok(words)
    }

    pub(super) fn as_slice(&self) -> &[Range<usize>] {
        &self.ranges[..self.count]
    }
}

/// Returns the position of the line end, if the line is complete. `searched` is the position up to which none was found.
#[inline]
pub(super) fn line_end(
    buf: &[u8],
    searched: &mut usize,
    what: &'static str,
    limit: usize,
) -> Result<Option<usize>, NatsError> {
    let found = memchr2(b'\r', b'\n', &buf[*searched..]).map(|found| *searched + found);
    if found.unwrap_or(buf.len()) > limit {
        return Err(NatsError::TooLong { what, limit });
    }
    let Some(end) = found else {
        *searched = buf.len();
        return Ok(None);
    };
    *searched = end;
    match buf.get(end + 1) {
        _ if buf[end] == b'\n' => Err(NatsError::NoLineEnd { what: "line" }),
        None => Ok(None),
        Some(b'\n') => Ok(Some(end)),
        Some(_) => Err(NatsError::NoLineEnd { what: "line" }),
    }
}

/// Parses a number: digits only.
pub(super) fn number(line: &[u8], range: &Range<usize>) -> Result<u64, NatsError> {
    let digits = &line[range.clone()];
    let value = digits.iter().try_fold(0u64, |value, digit| {
        let digit = u64::from(digit.wrapping_sub(b'0'));
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(digit) }
    });
    value.ok_or_else(|| malformed("a number", digits))
}

/// The sizes of a message's headers and of headers and payload together.
pub(super) fn sizes(
    line: &[u8],
    headers: Option<&Range<usize>>,
    total: &Range<usize>,
    limits: &NatsLimits,
) -> Result<(Option<usize>, usize), NatsError> {
    let size =
        |range: &Range<usize>| Ok(usize::try_from(number(line, range)?).unwrap_or(usize::MAX));
    let headers = headers.map(size).transpose()?;
    let total = size(total)?;
    if headers.is_some_and(|headers| headers > limits.headers) {
        return Err(NatsError::TooLong { what: "a block of headers", limit: limits.headers });
    }
    if total > limits.payload {
        return Err(NatsError::TooLong { what: "a payload", limit: limits.payload });
    }
    if headers.is_some_and(|headers| headers > total) {
        return Err(malformed("headers that are no longer than the whole", line));
    }
    Ok((headers, total))
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cold]
pub(super) fn malformed(expected: &'static str, found: &[u8]) -> NatsError {
    NatsError::Malformed { expected, found: Quoted::new(found) }
}
