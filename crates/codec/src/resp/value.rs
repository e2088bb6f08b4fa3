//! RESP values.

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memchr2;
use waterwheel_channel::{Message, Quoted};

use super::encoder::RespVersion;
use super::error::RespError;
use super::token::is_big_number;

/// Upper bound of the encoded size of a number, a length or an aggregate's header.
const HEAD: usize = 40;

/// A value of RESP2 or RESP3.
///
/// ```
/// use bytes::BytesMut;
/// use waterwheel_codec::{RespValue, RespVersion};
///
/// let user = RespValue::Map(vec![(RespValue::bulk("age"), RespValue::Integer(36))]);
/// let mut wire = BytesMut::new();
/// user.encode(RespVersion::Resp3, &mut wire)?;
/// assert_eq!(wire, "%1\r\n$3\r\nage\r\n:36\r\n");
/// wire.clear();
/// user.encode(RespVersion::Resp2, &mut wire)?; // RESP2 has no maps.
/// assert_eq!(wire, "*2\r\n$3\r\nage\r\n:36\r\n");
/// # Ok::<(), waterwheel_codec::RespError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum RespValue {
    /// A short string without `\r` and `\n`: `+OK`.
    Simple(Bytes),
    /// An error without `\r` and `\n`: `-ERR unknown command`.
    Error(Bytes),
    /// A 64-bit integer.
    Integer(i64),
    /// A binary-safe string.
    Bulk(Bytes),
    /// A list of values.
    Array(Vec<RespValue>),
    /// Null: `_` in RESP3, a null bulk string in RESP2. A null array is decoded as `Null` too.
    Null,
    /// A boolean; 1 or 0 in RESP2.
    Boolean(bool),
    /// A floating-point number; a bulk string in RESP2.
    Double(f64),
    /// An integer of any size, as decimal digits; a bulk string in RESP2.
    BigNumber(Bytes),
    /// A binary-safe error; a simple error in RESP2, with spaces instead of `\r` and `\n`.
    BulkError(Bytes),
    /// A text with a format of three bytes, such as `txt` and `mkd`; a bulk string in RESP2.
    Verbatim {
        /// The format.
        format: [u8; 3],
        /// The text.
        text: Bytes,
    },
    /// Keys and values in wire order; a flat array in RESP2.
    Map(Vec<(RespValue, RespValue)>),
    /// An unordered set, in wire order; an array in RESP2.
    Set(Vec<RespValue>),
    /// An out-of-band message, such as one of a subscription; an array in RESP2. Never nested in another value.
    Push(Vec<RespValue>),
    /// A value with attributes; in RESP2 the value alone.
    Attributed {
        /// The attributes, as pairs.
        attributes: Vec<(RespValue, RespValue)>,
        /// The value.
        value: Box<RespValue>,
    },
}

impl RespValue {
    /// Creates a simple string; the text must not contain `\r` or `\n`.
    pub fn simple(text: impl Into<Bytes>) -> Self {
        Self::Simple(text.into())
    }

    /// Creates a simple error; the text must not contain `\r` or `\n`. By convention the first word is a code such as
    /// `ERR`.
    pub fn error(text: impl Into<Bytes>) -> Self {
        Self::Error(text.into())
    }

    /// Creates a bulk string.
    pub fn bulk(bytes: impl Into<Bytes>) -> Self {
        Self::Bulk(bytes.into())
    }

    /// Appends the encoded value to `dst`.
    ///
    /// # Errors
    /// The value cannot be encoded; `dst` is unchanged.
    pub fn encode(&self, version: RespVersion, dst: &mut BytesMut) -> Result<(), RespError> {
        self.check(true)?;
        self.put(version, dst, &mut |dst, payload| dst.put_slice(payload));
        Ok(())
    }

    /// Returns an upper bound of the encoded size.
    pub(super) fn most_bytes(&self) -> usize {
        let all = |values: &[Self]| values.iter().map(Self::most_bytes).sum::<usize>();
        let pairs = |pairs: &[(Self, Self)]| -> usize {
            pairs.iter().map(|(key, value)| key.most_bytes() + value.most_bytes()).sum()
        };
        HEAD + match self {
            Self::Simple(bytes) | Self::Error(bytes) | Self::Bulk(bytes) => bytes.len(),
            Self::BigNumber(bytes) | Self::BulkError(bytes) => bytes.len(),
            Self::Verbatim { text, .. } => text.len(),
            Self::Integer(_) | Self::Null | Self::Boolean(_) | Self::Double(_) => 0,
            Self::Array(values) | Self::Set(values) | Self::Push(values) => all(values),
            Self::Map(values) => pairs(values),
            Self::Attributed { attributes, value } => pairs(attributes) + value.most_bytes(),
        }
    }

    /// Checks that the value can be encoded, and is decoded as the same value.
    pub(super) fn check(&self, outermost: bool) -> Result<(), RespError> {
        let all = |values: &[Self]| values.iter().try_for_each(|value| value.check(false));
        let pairs = |pairs: &[(Self, Self)]| {
            pairs.iter().try_for_each(|(key, value)| key.check(false).and(value.check(false)))
        };
        match self {
            Self::Simple(line) | Self::Error(line) if memchr2(b'\r', b'\n', line).is_some() => {
                let what = "a simple string or error contains a line end";
                return Err(RespError::Misplaced { what });
            }
            Self::BigNumber(digits) if !is_big_number(digits) => {
                let found = Quoted::new(digits);
                return Err(RespError::Malformed { expected: "big number", found });
            }
            Self::Push(_) if !outermost => {
                return Err(RespError::Misplaced { what: "a push inside of another value" });
            }
            Self::Array(values) | Self::Set(values) | Self::Push(values) => all(values)?,
            Self::Map(values) => pairs(values)?,
            Self::Attributed { attributes, value } => {
                pairs(attributes)?;
                value.check(outermost)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends a checked value to `dst`; calls `payload` for its strings.
    pub(super) fn put(
        &self,
        version: RespVersion,
        dst: &mut BytesMut,
        payload: &mut impl FnMut(&mut BytesMut, &Bytes),
    ) {
        let resp3 = version == RespVersion::Resp3;
        match self {
            Self::Simple(line) => put_line(dst, b'+', line),
            Self::Error(line) => put_line(dst, b'-', line),
            Self::Integer(value) => put_number(dst, b':', *value),
            Self::Bulk(bytes) => put_bulk(dst, b'$', bytes, payload),
            Self::Null => dst.put_slice(if resp3 { b"_\r\n" } else { b"$-1\r\n" }),
            Self::Boolean(value) if resp3 => put_line(dst, b'#', if *value { b"t" } else { b"f" }),
            Self::Boolean(value) => put_number(dst, b':', i64::from(*value)),
            Self::Double(value) => put_double(dst, *value, resp3),
            Self::BigNumber(digits) if resp3 => put_line(dst, b'(', digits),
            Self::BigNumber(digits) => put_bulk(dst, b'$', digits, payload),
            Self::BulkError(bytes) if resp3 => put_bulk(dst, b'!', bytes, payload),
            Self::BulkError(bytes) => put_flat_error(dst, bytes),
            Self::Verbatim { format, text } if resp3 => {
                put_number(dst, b'=', text.len() as i64 + 4);
                dst.put_slice(format);
                dst.put_u8(b':');
                payload(dst, text);
                dst.put_slice(b"\r\n");
            }
            Self::Verbatim { text, .. } => put_bulk(dst, b'$', text, payload),
            Self::Array(values) => put_values(dst, b'*', values, version, payload),
            Self::Set(values) => {
                put_values(dst, if resp3 { b'~' } else { b'*' }, values, version, payload);
            }
            Self::Push(values) => {
                put_values(dst, if resp3 { b'>' } else { b'*' }, values, version, payload);
            }
            Self::Map(pairs) if resp3 => put_pairs(dst, b'%', pairs.len(), pairs, version, payload),
            Self::Map(pairs) => put_pairs(dst, b'*', 2 * pairs.len(), pairs, version, payload),
            Self::Attributed { attributes, value } => {
                if resp3 {
                    put_pairs(dst, b'|', attributes.len(), attributes, version, payload);
                }
                value.put(version, dst, payload);
            }
        }
    }
}

impl Message for RespValue {
    fn size_hint(&self) -> usize {
        self.most_bytes()
    }
}

impl From<i64> for RespValue {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

fn put_line(dst: &mut BytesMut, kind: u8, line: &[u8]) {
    dst.reserve(line.len() + 3);
    dst.put_u8(kind);
    dst.put_slice(line);
    dst.put_slice(b"\r\n");
}

/// Appends a type byte and a number: an integer, or the length of the following value.
pub(super) fn put_number(dst: &mut BytesMut, kind: u8, value: i64) {
    const MOST: usize = 1 + 20 + 2;
    let mut line = [0; MOST];
    let mut at = MOST - 2;
    line[at..].copy_from_slice(b"\r\n");
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        line[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        line[at] = b'-';
    }
    at -= 1;
    line[at] = kind;
    dst.put_slice(&line[at..]);
}

fn put_bulk(
    dst: &mut BytesMut,
    kind: u8,
    bytes: &Bytes,
    payload: &mut impl FnMut(&mut BytesMut, &Bytes),
) {
    put_number(dst, kind, bytes.len() as i64);
    payload(dst, bytes);
    dst.put_slice(b"\r\n");
}

fn put_double(dst: &mut BytesMut, value: f64, resp3: bool) {
    let text = match value {
        _ if value.is_nan() => String::from("nan"),
        _ if value.is_infinite() => String::from(if value > 0.0 { "inf" } else { "-inf" }),
        _ => format!("{value:?}"), // The shortest text that parses as the same number.
    };
    if resp3 {
        put_line(dst, b',', text.as_bytes());
    } else {
        put_bulk(dst, b'$', &text.into(), &mut |dst, bytes| dst.put_slice(bytes));
    }
}

fn put_flat_error(dst: &mut BytesMut, error: &[u8]) {
    dst.put_u8(b'-');
    dst.extend(error.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    dst.put_slice(b"\r\n");
}

fn put_values(
    dst: &mut BytesMut,
    kind: u8,
    values: &[RespValue],
    version: RespVersion,
    payload: &mut impl FnMut(&mut BytesMut, &Bytes),
) {
    put_number(dst, kind, values.len() as i64);
    for value in values {
        value.put(version, dst, payload);
    }
}

fn put_pairs(
    dst: &mut BytesMut,
    kind: u8,
    count: usize,
    pairs: &[(RespValue, RespValue)],
    version: RespVersion,
    payload: &mut impl FnMut(&mut BytesMut, &Bytes),
) {
    put_number(dst, kind, count as i64);
    for (key, value) in pairs {
        key.put(version, dst, payload);
        value.put(version, dst, payload);
    }
}
