//! The headers of a message.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::{memchr, memmem};
use waterwheel_channel::Quoted;

use super::error::NatsError;

/// The beginning of every block of headers.
const VERSION: &[u8] = b"NATS/1.0";

/// The headers of a message, as their wire bytes: a version, an optional status, and fields.
///
/// ```
/// use waterwheel_codec::NatsHeaders;
///
/// let headers = NatsHeaders::new(&[("Nats-Msg-Id", "7"), ("Trace", "a b")])?;
/// assert_eq!(headers.wire(), "NATS/1.0\r\nNats-Msg-Id: 7\r\nTrace: a b\r\n\r\n");
/// assert_eq!(headers.get("nats-msg-id"), Some(&b"7"[..]));
/// assert_eq!(headers.status(), None);
///
/// let no_responders = NatsHeaders::from_wire("NATS/1.0 503 No Responders\r\n\r\n".into())?;
/// assert_eq!(no_responders.status(), Some(503));
/// assert_eq!(no_responders.description(), b"No Responders");
/// # Ok::<(), waterwheel_codec::NatsError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct NatsHeaders(Bytes);

impl NatsHeaders {
    /// Creates headers without a status.
    ///
    /// # Errors
    /// A name is empty or has a colon, white space or a control character; a value has a line end, or white space at its
    /// ends.
    pub fn new<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Result<Self, NatsError> {
        let mut wire = BytesMut::with_capacity(64 * (1 + fields.len()));
        wire.put_slice(VERSION);
        wire.put_slice(b"\r\n");
        for (name, value) in fields {
            let (name, value) = (name.as_ref(), value.as_ref());
            let is_wrong = |byte: &u8| *byte == b':' || *byte <= b' ' || *byte == 0x7f;
            if name.is_empty() || name.iter().any(is_wrong) {
                return Err(unwritable("the name of a header", name));
            }
            if value.trim_ascii() != value || value.iter().any(|byte| matches!(byte, b'\r' | b'\n'))
            {
                return Err(unwritable("the value of a header", value));
            }
            wire.put_slice(name);
            wire.put_slice(b": ");
            wire.put_slice(value);
            wire.put_slice(b"\r\n");
        }
        wire.put_slice(b"\r\n");
        Ok(Self(wire.freeze()))
    }

    /// Creates headers from their wire bytes.
    ///
    /// # Errors
    /// The bytes do not begin with the version, or do not end with an empty line.
    pub fn from_wire(wire: Bytes) -> Result<Self, NatsError> {
        let after = wire.strip_prefix(VERSION);
        let is_begun = after.is_some_and(|after| matches!(after.first(), Some(b' ' | b'\r')));
        if !is_begun || !wire.ends_with(b"\r\n\r\n") {
            const EXPECTED: &str = "headers from NATS/1.0 to an empty line";
            return Err(NatsError::Malformed { expected: EXPECTED, found: Quoted::new(&wire) });
        }
        Ok(Self(wire))
    }

    /// Returns the wire bytes, from the version to the empty line.
    #[must_use]
    pub fn wire(&self) -> &Bytes {
        &self.0
    }

    /// Returns the status, which servers send in place of a message: 100, 404, 408, 409, 503.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        let (code, _) = self.status_line().split_at_checked(3)?;
        str::from_utf8(code).ok()?.parse().ok()
    }

    /// Returns the text behind the status, or an empty one.
    #[must_use]
    pub fn description(&self) -> &[u8] {
        self.status_line().get(3..).unwrap_or_default().trim_ascii()
    }

    /// Returns the value of the first field of this name, ignoring case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.iter();
        fields
            .find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// Returns the fields in order, names and values without white space around them. Lines without a colon are left out.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.0[self.first_line_end()..];
        std::iter::from_fn(move || {
            loop {
                rest = rest.get(2..)?;
                let line = &rest[..memmem::find(rest, b"\r\n")?];
                rest = &rest[line.len()..];
                if let Some(colon) = memchr(b':', line) {
                    return Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()));
                }
            }
        })
    }

    fn status_line(&self) -> &[u8] {
        self.0[VERSION.len()..self.first_line_end()].trim_ascii()
    }

    fn first_line_end(&self) -> usize {
        memmem::find(&self.0, b"\r\n").unwrap_or(self.0.len())
    }
}

impl fmt::Debug for NatsHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NatsHeaders({})", Quoted::new(&self.0))
    }
}

pub(super) fn unwritable(what: &'static str, found: &[u8]) -> NatsError {
    NatsError::Unwritable { what, found: Quoted::new(found) }
}
