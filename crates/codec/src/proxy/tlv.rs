//! Type-length-value entries (TLV) of a PROXY header.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use waterwheel_channel::Quoted;

use super::error::ProxyError;

/// Length of an entry's type and length fields.
pub(super) const HEAD: usize = 3;

/// A TLV entry of a version 2 PROXY header.
///
/// ```
/// use waterwheel_codec::ProxyTlv;
///
/// let alpn = ProxyTlv { kind: ProxyTlv::ALPN, value: "h2".into() };
/// assert_eq!(alpn.kind, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyTlv {
    /// The type, such as one of the constants.
    pub kind: u8,
    /// The raw value.
    pub value: Bytes,
}

impl ProxyTlv {
    /// The negotiated protocol (ALPN).
    pub const ALPN: u8 = 0x01;
    /// The requested host name (SNI).
    pub const AUTHORITY: u8 = 0x02;
    /// The CRC32c of the header. The decoder verifies and removes it; the encoder fills in an entry of four bytes.
    pub const CRC32C: u8 = 0x03;
    /// Padding.
    pub const NOOP: u8 = 0x04;
    /// A unique id of the connection, up to 128 bytes.
    pub const UNIQUE_ID: u8 = 0x05;
    /// The client's TLS: one byte of flags, four bytes of the verification result, and
    /// [entries](Self::parse) of types `0x21` and up.
    pub const SSL: u8 = 0x20;
    /// The network namespace.
    pub const NETNS: u8 = 0x30;

    /// Parses entries.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use waterwheel_codec::ProxyTlv;
    ///
    /// let entries = ProxyTlv::parse(Bytes::from_static(b"\x02\0\x0bexample.com\x04\0\0"))?;
    /// assert_eq!((entries[0].kind, &entries[0].value[..]), (ProxyTlv::AUTHORITY, &b"example.com"[..]));
    /// assert_eq!(entries[1].kind, ProxyTlv::NOOP);
    /// # Ok::<(), waterwheel_codec::ProxyError>(())
    /// ```
    ///
    /// # Errors
    /// An entry is longer than the remaining bytes.
    pub fn parse(mut bytes: Bytes) -> Result<Vec<Self>, ProxyError> {
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            let length = bytes
                .get(1..HEAD)
                .map(|length| usize::from(length[0]) << 8 | usize::from(length[1]));
            match length {
                Some(length) if bytes.len() >= HEAD + length => {
                    let kind = bytes[0];
                    bytes.advance(HEAD);
                    entries.push(Self { kind, value: bytes.split_to(length) });
                }
                _ => return Err(malformed(&bytes)),
            }
        }
        Ok(entries)
    }

    pub(super) fn put(&self, dst: &mut BytesMut) {
        dst.put_u8(self.kind);
        dst.put_u16(self.value.len() as u16);
        dst.put_slice(&self.value);
    }
}

fn malformed(found: &[u8]) -> ProxyError {
    ProxyError::Malformed { expected: "type, length and value", found: Quoted::new(found) }
}
