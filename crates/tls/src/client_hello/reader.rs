//! Collects the records of a ClientHello.

use bytes::{Buf, Bytes, BytesMut};

use super::ClientHello;
use super::error::ClientHelloError;
use super::message;

/// The length of a record's header: its type, its version, and the length of the rest.
const RECORD_HEADER: usize = 5;
/// The length of a handshake message's header: its type, and the length of the rest.
const MESSAGE_HEADER: usize = 4;
/// The longest payload of a record: rustls allows the length of an encrypted one for those that are not, too.
const MAX_PAYLOAD: usize = 16 * 1024 + 2048 - 1;

const HANDSHAKE: u8 = 22;
/// The types of records: change_cipher_spec, alert, handshake, application_data, heartbeat.
const CONTENT_TYPES: std::ops::RangeInclusive<u8> = 20..=24;
/// The major version of all versions of TLS, and of SSL 3.
const MAJOR_VERSION: u8 = 3;
const CLIENT_HELLO: u8 = 1;

/// Reads a ClientHello from bytes that come in any pieces. Without a channel, a clock or a connection: for handlers,
/// proxies and tools of your own.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_tls::{ClientHelloError, ClientHelloReader};
///
/// let mut reader = ClientHelloReader::new();
/// let mut bytes = Bytes::from_static(b"\x16\x03");
/// assert!(reader.feed(&mut bytes)?.is_none(), "more bytes are needed");
///
/// let mut bytes = Bytes::from_static(b"GET / HTTP/1.1\r\n");
/// let error = ClientHelloReader::new().feed(&mut bytes).unwrap_err();
/// assert_eq!(error, ClientHelloError::NotTls { at: 0, found: b'G' });
/// # Ok::<(), ClientHelloError>(())
/// ```
#[derive(Debug)]
pub struct ClientHelloReader {
    limit: usize,
    /// The bytes so far, with the headers of the records.
    records: BytesMut,
    /// Where the present record begins.
    record_start: usize,
    /// The number of bytes of the message so far.
    message_len: usize,
    /// The first bytes of the message.
    message_header: [u8; MESSAGE_HEADER],
}

impl ClientHelloReader {
    /// The default limit, which is far above what clients send: less than 2 KiB, with post-quantum key shares too.
    pub const DEFAULT_LIMIT: usize = 64 * 1024;

    /// Returns a reader with the default limit, 64 KiB.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }

    /// Returns a reader that accepts, and holds, at most this many bytes, headers of records included.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            records: BytesMut::new(),
            record_start: 0,
            message_len: 0,
            message_header: [0; MESSAGE_HEADER],
        }
    }

    /// Takes bytes up to the end of the ClientHello; what follows it stays in `bytes`. Returns `None` if more bytes are
    /// needed. After a ClientHello the reader is as new.
    ///
    /// # Errors
    /// The bytes are not a ClientHello; the reader is of no further use.
    pub fn feed(&mut self, bytes: &mut Bytes) -> Result<Option<ClientHello>, ClientHelloError> {
        while let Some(&next) = bytes.first() {
            match self.body_left() {
                None => {
                    self.take_header_byte(next)?;
                    bytes.advance(1);
                }
                Some(left) => {
                    let len = left.min(bytes.len());
                    self.take_body(&bytes[..len])?;
                    bytes.advance(len);
                    if self.has_whole_message() {
                        return self.finish().map(Some);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the bytes fed so far, if no ClientHello was complete.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.records.freeze()
    }

    /// Returns how many bytes of the present record are missing; `None` while its header is not complete.
    fn body_left(&self) -> Option<usize> {
        let record = &self.records[self.record_start..];
        Some(RECORD_HEADER + record_len(record)? - record.len())
    }

    fn take_header_byte(&mut self, byte: u8) -> Result<(), ClientHelloError> {
        let at = self.records.len() - self.record_start;
        match at {
            0 if !CONTENT_TYPES.contains(&byte) => {
                return Err(ClientHelloError::NotTls { at, found: byte });
            }
            0 if byte != HANDSHAKE => {
                return Err(ClientHelloError::UnexpectedRecord { content_type: byte });
            }
            0 if self.record_start + RECORD_HEADER >= self.limit => return Err(self.too_long()),
            1 if byte != MAJOR_VERSION => {
                return Err(ClientHelloError::NotTls { at, found: byte });
            }
            _ => {}
        }
        self.records.extend_from_slice(&[byte]);
        if let Some(length) = record_len(&self.records[self.record_start..]) {
            if length == 0 || length > MAX_PAYLOAD {
                return Err(ClientHelloError::InvalidRecord { length });
            }
            if self.records.len() + length > self.limit {
                return Err(self.too_long());
            }
        }
        Ok(())
    }

    /// Takes bytes of the present record, which may be the last of it.
    fn take_body(&mut self, body: &[u8]) -> Result<(), ClientHelloError> {
        if self.message_len < MESSAGE_HEADER {
            for (to, &byte) in self.message_header[self.message_len..].iter_mut().zip(body) {
                *to = byte;
            }
        }
        self.message_len += body.len();
        let handshake_type = self.message_header[0];
        if handshake_type != CLIENT_HELLO {
            return Err(ClientHelloError::UnexpectedMessage { handshake_type });
        }
        if let Some(wanted) = self.wanted_len() {
            if wanted + RECORD_HEADER > self.limit {
                return Err(self.too_long());
            }
            let record = &self.records[self.record_start..];
            let left = record_len(record).map_or(0, |len| RECORD_HEADER + len - record.len());
            if self.message_len + (left - body.len()) > wanted {
                let reason = "the record does not end with the message";
                return Err(ClientHelloError::Malformed { at: wanted, reason });
            }
        }
        self.records.extend_from_slice(body);
        if self.body_left() == Some(0) && !self.has_whole_message() {
            self.record_start = self.records.len();
        }
        Ok(())
    }

    /// Returns the length of the message with its header; `None` while the header is not complete.
    fn wanted_len(&self) -> Option<usize> {
        let [_, length @ ..] = self.message_header;
        let length = length.iter().fold(0, |all, &byte| all << 8 | usize::from(byte));
        (self.message_len >= MESSAGE_HEADER).then_some(MESSAGE_HEADER + length)
    }

    fn has_whole_message(&self) -> bool {
        self.wanted_len() == Some(self.message_len)
    }

    fn finish(&mut self) -> Result<ClientHello, ClientHelloError> {
        let done = std::mem::replace(self, Self::with_limit(self.limit));
        let records = done.records.freeze();
        if done.record_start == 0 {
            return message::parse(&records[RECORD_HEADER..], &records);
        }
        let mut joined = Vec::with_capacity(done.message_len);
        let mut rest = &records[..];
        while let Some(length) = record_len(rest) {
            let (record, following) = rest.split_at(RECORD_HEADER + length);
            joined.extend_from_slice(&record[RECORD_HEADER..]);
            rest = following;
        }
        message::parse(&joined, &records)
    }

    fn too_long(&self) -> ClientHelloError {
        ClientHelloError::TooLong { limit: self.limit }
    }
}

impl Default for ClientHelloReader {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the length that the header of a record states; `None` if the header is not complete.
fn record_len(record: &[u8]) -> Option<usize> {
    let header = record.first_chunk::<RECORD_HEADER>()?;
    Some(usize::from(u16::from_be_bytes([header[3], header[4]])))
}
