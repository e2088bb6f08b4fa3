//! User events of a TLS handler.

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, CommonState, HandshakeKind, ProtocolVersion};
use waterwheel_channel::Message;

/// The outcome of a handshake: fired as a user event when it is over, before the first byte of plaintext.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsHandshake {
    /// The version of the protocol.
    pub version: Option<ProtocolVersion>,
    /// The cipher suite.
    pub cipher_suite: Option<CipherSuite>,
    /// The application protocol that was chosen (ALPN); `None` if none was.
    pub alpn: Option<Vec<u8>>,
    /// The name that the client has asked for (SNI), on the server's side; `None` if it gave none, or in a ClientHello of
    /// more than 16 KiB.
    pub server_name: Option<String>,
    /// The certificates of the peer, its own first; empty if it presented none.
    pub peer_certificates: Vec<CertificateDer<'static>>,
    /// True if an earlier session was resumed.
    pub is_resumed: bool,
}

impl TlsHandshake {
    pub(crate) fn of(connection: &CommonState, server_name: Option<&str>) -> Self {
        Self {
            version: connection.protocol_version(),
            cipher_suite: connection.negotiated_cipher_suite().map(|suite| suite.suite()),
            alpn: connection.alpn_protocol().map(<[u8]>::to_vec),
            server_name: server_name.map(str::to_owned),
            peer_certificates: connection.peer_certificates().unwrap_or_default().to_vec(),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }
}

impl Message for TlsHandshake {}

/// Fired as a user event when the peer has sent close_notify: its data is complete, and no more follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsPeerClosed;

impl Message for TlsPeerClosed {}

/// Request to end TLS and to keep the connection, fired by
/// [`Channel::fire_user_event`](waterwheel_channel::Channel::fire_user_event): what was written before is sent, then
/// close_notify. When the peer has answered with its own, the handler fires [`TlsStopped`] and removes itself; what the
/// peer sends after it is passed on as it is, and what is written after the request is sent as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopTls;

impl Message for StopTls {}

/// Fired as a user event when TLS has ended and the connection stays open, before the first message without TLS. See
/// [`StopTls`] and [`OnCloseNotify::StopTls`](crate::OnCloseNotify::StopTls).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsStopped;

impl Message for TlsStopped {}
