//! A server with TLS over a scripted peer.

use std::io::{Read, Write};
use std::sync::Arc;

use waterwheel_testkit::manual::Peer;
use waterwheel_tls::ClientTls;
use waterwheel_tls::rustls::pki_types::pem::PemObject;
use waterwheel_tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use waterwheel_tls::rustls::{ServerConfig, ServerConnection};

use crate::support::Bench;

/// A certificate for the address 192.0.2.1 that signs itself, valid from 2020 to 2120.
const CERTIFICATE: &[u8] = include_bytes!("certificates/server.crt");
const KEY: &[u8] = include_bytes!("certificates/server.key");

/// Returns the configuration of a client that trusts the server.
pub(crate) fn trusting_client() -> ClientTls {
    ClientTls::builder().trust_pem("server.crt", CERTIFICATE).build().unwrap()
}

/// The server's side of one connection.
pub(crate) struct TlsServer {
    pub(crate) connection: ServerConnection,
}

impl TlsServer {
    /// Creates a server that speaks these application protocols.
    pub(crate) fn new(alpn: &[&[u8]]) -> Self {
        let provider = trusting_client().config().crypto_provider().clone();
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::from_pem_slice(KEY).unwrap())
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Self { connection: ServerConnection::new(Arc::new(config)).unwrap() }
    }

    /// Exchanges bytes with the client until both wait, and returns what the client has sent.
    pub(crate) fn exchange(&mut self, bench: &mut Bench, peer: &Peer) -> String {
        let mut text = Vec::new();
        loop {
            bench.run();
            let received = peer.take_received();
            if received.is_empty() && !self.connection.wants_write() {
                return String::from_utf8(text).unwrap();
            }
            let mut bytes = &received[..];
            while !bytes.is_empty() {
                self.connection.read_tls(&mut bytes).unwrap();
                // The client sees the alert of a failure.
                let Ok(state) = self.connection.process_new_packets() else { break };
                let mut plain = vec![0; state.plaintext_bytes_to_read()];
                self.connection.reader().read_exact(&mut plain).unwrap();
                text.extend_from_slice(&plain);
            }
            self.write_out(peer);
        }
    }

    /// Sends bytes to the client.
    pub(crate) fn send(&mut self, bench: &mut Bench, peer: &Peer, bytes: impl AsRef<[u8]>) {
        self.connection.writer().write_all(bytes.as_ref()).unwrap();
        self.write_out(peer);
        bench.run();
    }

    /// Ends the connection in the way of TLS.
    pub(crate) fn close(&mut self, bench: &mut Bench, peer: &Peer) {
        self.connection.send_close_notify();
        self.write_out(peer);
        bench.finish(peer);
    }

    fn write_out(&mut self, peer: &Peer) {
        let mut out = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut out).unwrap();
        }
        peer.send(&out);
    }
}
