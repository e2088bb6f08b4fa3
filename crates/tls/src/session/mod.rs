//! One TLS connection as a state machine over bytes: no channel, clock or executor in it.
//!
//! ```text
//!   ciphertext ──► feed ──► plaintext, SessionEvent
//!   ciphertext ◄── take_ciphertext ◄── encrypt, send_close_notify, and whatever `feed` has to answer
//! ```
//!
//! After an error, `take_ciphertext` returns the alert for the peer. rustls keeps at most one record, or one handshake
//! message of 64 KiB, of what it was fed; plaintext and ciphertext leave in the call that made them.

mod record_boundary;

use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, ClientConnection, Connection, InvalidMessage, ServerConfig, ServerConnection,
};

use self::record_boundary::RecordBoundary;
use crate::config::client::ClientTls;
use crate::handshake::TlsHandshake;

/// The overhead of a record at most: header, explicit nonce, tag, content type.
const RECORD_OVERHEAD: usize = 5 + 8 + 16 + 1;

/// The plaintext of a full record.
pub(crate) const RECORD_SIZE: usize = 16 * 1024;

/// A TLS connection without a transport.
pub(crate) struct TlsSession {
    connection: Connection,
    boundary: RecordBoundary,
    is_established: bool,
    has_peer_closed: bool,
    /// The alert that rustls does not send by itself.
    alert: Option<AlertDescription>,
}

/// The effect of a peer's record that the handler has to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    /// The handshake is over: data may be encrypted.
    Established,
    /// The peer has sent close_notify. What follows is not TLS.
    PeerClosed,
}

impl TlsSession {
    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        if config.max_early_data_size > 0 {
            // rustls keeps early data apart from other data; here it would be lost, or be replayed.
            let reason = "early data is not supported: set `max_early_data_size` to 0";
            return Err(rustls::Error::General(reason.into()));
        }
        ServerConnection::new(config).map(|connection| Self::new(Connection::Server(connection)))
    }

    pub(crate) fn client(
        config: &ClientTls,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        let connection = ClientConnection::new(config.config().clone(), name)?;
        Ok(Self::new(Connection::Client(connection)))
    }

    fn new(connection: Connection) -> Self {
        Self {
            connection,
            boundary: RecordBoundary::default(),
            is_established: false,
            has_peer_closed: false,
            alert: None,
        }
    }

    /// Takes ciphertext until something has to be handled before the next record, or until there is no more; appends
    /// the plaintext. After [`SessionEvent::PeerClosed`] the rest stays where it is.
    ///
    /// # Errors
    /// The peer has violated the protocol, or has sent a fatal alert. Plaintext of earlier records is appended, and
    /// `ciphertext` begins with the bytes that were refused.
    pub(crate) fn feed(
        &mut self,
        ciphertext: &mut Bytes,
        plaintext: &mut BytesMut,
    ) -> Result<Option<SessionEvent>, rustls::Error> {
        while !ciphertext.is_empty() && !self.has_peer_closed {
            let len = self.boundary.pass(ciphertext);
            self.feed_part(&ciphertext[..len], plaintext).inspect_err(|error| {
                self.add_missing_alert(error);
            })?;
            ciphertext.advance(len);
            if !self.is_established && !self.connection.is_handshaking() {
                self.is_established = true;
                return Ok(Some(SessionEvent::Established));
            }
            if self.has_peer_closed {
                return Ok(Some(SessionEvent::PeerClosed));
            }
        }
        Ok(None)
    }

    /// Feeds a part of one record.
    fn feed_part(
        &mut self,
        mut part: &[u8],
        plaintext: &mut BytesMut,
    ) -> Result<(), rustls::Error> {
        while !part.is_empty() {
            // Its buffer is full of the fragments of one handshake message.
            let full = |_: io::Error| InvalidMessage::HandshakePayloadTooLarge;
            self.connection.read_tls(&mut part).map_err(full)?;
            let processed = self.connection.process_new_packets();
            self.collect_plaintext(plaintext);
            self.has_peer_closed = processed?.peer_has_closed();
        }
        Ok(())
    }

    /// rustls refuses some messages without an alert: handshake messages that are too long, or mixed with others; too
    /// many warnings. As long as nothing is encrypted, the alert can be added here.
    fn add_missing_alert(&mut self, error: &rustls::Error) {
        let is_plain = self.connection.protocol_version().is_none();
        if is_plain && !self.has_ciphertext() && !matches!(error, rustls::Error::AlertReceived(_)) {
            self.alert = match error {
                rustls::Error::InvalidMessage(_) => Some(AlertDescription::DecodeError),
                _ => Some(AlertDescription::UnexpectedMessage),
            };
        }
    }

    fn collect_plaintext(&mut self, plaintext: &mut BytesMut) {
        // Without plaintext, `into_first_chunk` is an error or empty.
        while let Ok(chunk) = self.connection.reader().into_first_chunk()
            && !chunk.is_empty()
        {
            let len = chunk.len();
            plaintext.extend_from_slice(chunk);
            io::BufRead::consume(&mut self.connection.reader(), len);
        }
    }

    /// Encrypts `parts`, as one record if they fit into one, and appends the ciphertext.
    pub(crate) fn encrypt(&mut self, parts: &[Bytes], ciphertext: &mut BytesMut) {
        debug_assert!(self.is_established, "rustls would buffer the plaintext");
        let total: usize = parts.iter().map(Bytes::len).sum();
        ciphertext.reserve(total + (total / RECORD_SIZE + 1) * RECORD_OVERHEAD);
        let mut slices = [IoSlice::new(&[]); MAX_PARTS];
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let mut rest = &mut slices[..parts.len().min(MAX_PARTS)];
        while !rest.is_empty() {
            // Takes less than everything only if rustls' buffer is full, which the next line empties.
            let written = self.connection.writer().write_vectored(rest).unwrap_or(0);
            IoSlice::advance_slices(&mut rest, written);
            self.take_ciphertext(ciphertext);
            if written == 0 {
                break; // Only empty parts are left.
            }
        }
    }

    /// Appends the ciphertext that waits to be sent.
    pub(crate) fn take_ciphertext(&mut self, ciphertext: &mut BytesMut) {
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut Appender(ciphertext)).is_err() {
                unreachable!("appending to memory does not fail");
            }
        }
        if let Some(description) = self.alert.take() {
            // An alert record of TLS 1.2, of two bytes: fatal, and why.
            ciphertext.extend_from_slice(&[21, 3, 3, 0, 2, 2, description.into()]);
        }
    }

    /// True if there is ciphertext to send.
    pub(crate) fn has_ciphertext(&self) -> bool {
        self.connection.wants_write() || self.alert.is_some()
    }

    /// Tells the peer that no more data follows. Does nothing the second time, and after a fatal alert.
    pub(crate) fn send_close_notify(&mut self) {
        self.connection.send_close_notify();
    }

    /// True from the end of the handshake.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established
    }

    /// True if the peer has sent close_notify.
    pub(crate) fn has_peer_closed(&self) -> bool {
        self.has_peer_closed
    }

    /// Returns the outcome of the handshake.
    pub(crate) fn handshake(&self) -> TlsHandshake {
        TlsHandshake::of(&self.connection)
    }
}

/// The largest number of parts that become one record.
pub(crate) const MAX_PARTS: usize = 16;

/// Appends the records of rustls to a buffer.
struct Appender<'a>(&'a mut BytesMut);

impl Write for Appender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let total = parts.iter().map(|part| part.len()).sum();
        self.0.reserve(total);
        for part in parts {
            self.0.extend_from_slice(part);
        }
        Ok(total)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
