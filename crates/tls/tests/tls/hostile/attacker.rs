//! A peer that holds the keys of the connection and sends whatever it likes.

use std::sync::Arc;

use waterwheel_channel::ChannelOptions;
use waterwheel_tls::rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks,
    OutboundPlainMessage,
};
use waterwheel_tls::rustls::pki_types::pem::PemObject;
use waterwheel_tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use waterwheel_tls::rustls::{
    self, ClientConfig, ClientConnection, Connection, ConnectionTrafficSecrets, ContentType, Error,
    ProtocolVersion, RootCertStore, ServerConfig, ServerConnection, SupportedCipherSuite,
    SupportedProtocolVersion,
};
use waterwheel_tls::{TlsError, TlsHandler, TlsOptions};

use crate::support::{Configs, End, Identity, NAME, deliver};

/// Types of records.
pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const DATA: u8 = 23;

/// The side whose handler is under attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Server,
    Client,
}

pub(super) const TLS_1_2: ProtocolVersion = ProtocolVersion::TLSv1_2;
pub(super) const TLS_1_3: ProtocolVersion = ProtocolVersion::TLSv1_3;

/// Both sides in both versions.
pub(super) const ALL: [(Victim, ProtocolVersion); 4] = [
    (Victim::Server, TLS_1_2),
    (Victim::Server, TLS_1_3),
    (Victim::Client, TLS_1_2),
    (Victim::Client, TLS_1_3),
];

/// Returns one record as it stands on the wire.
pub(super) fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[kind, 3, 3, length[0], length[1]], payload].concat()
}

/// Returns the records on the wire: their types and payloads. The last one may be incomplete.
pub(super) fn records(mut wire: &[u8]) -> Vec<(u8, &[u8])> {
    let mut all = Vec::new();
    while let [kind, _, _, high, low, rest @ ..] = wire {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        all.push((*kind, &rest[..length]));
        wire = &rest[length..];
    }
    all
}

/// A handler under attack, and a peer that has behaved so far.
pub(super) struct Attack {
    pub(super) victim: End,
    /// The peer's side, without a handler.
    pub(super) peer: Connection,
}

impl Attack {
    /// Begins a connection. The first flight of a client under attack waits in its channel.
    pub(super) fn begin(victim: Victim, version: ProtocolVersion) -> Self {
        Self::with(victim, version, TlsOptions::default(), ChannelOptions::default())
    }

    pub(super) fn with(
        victim: Victim,
        version: ProtocolVersion,
        options: TlsOptions,
        channel: ChannelOptions,
    ) -> Self {
        let (server, client) = configs(version);
        let name = ServerName::try_from(NAME).unwrap();
        let (handler, peer) = match victim {
            Victim::Server => {
                let peer = ClientConnection::new(Arc::new(client), name).unwrap();
                (TlsHandler::server(server), Connection::Client(peer))
            }
            Victim::Client => {
                let peer = ServerConnection::new(Arc::new(server)).unwrap();
                (TlsHandler::client(client, name), Connection::Server(peer))
            }
        };
        Self { victim: End::new(handler.with_options(options), channel), peer }
    }

    /// Begins a connection whose handshake is done.
    pub(super) fn established(victim: Victim, version: ProtocolVersion) -> Self {
        let mut attack = Self::begin(victim, version);
        attack.exchange().unwrap();
        attack.assert_established(version);
        attack
    }

    pub(super) fn assert_established(&self, version: ProtocolVersion) {
        let handshake = self.victim.events.handshake().expect("a handshake");
        assert_eq!(handshake.version, Some(version));
    }

    /// Moves bytes both ways until both sides are silent. Returns the error of the peer's side, such as the alert that
    /// it was sent.
    pub(super) fn exchange(&mut self) -> Result<(), Error> {
        loop {
            self.victim.settle();
            let to_peer = self.victim.sent();
            let fed = self.feed_peer(&to_peer);
            let to_victim = self.take_flight();
            if to_peer.is_empty() && to_victim.is_empty() {
                return fed;
            }
            deliver(&mut self.victim.channel, &to_victim, usize::MAX);
            fed?;
        }
    }

    pub(super) fn feed_peer(&mut self, mut wire: &[u8]) -> Result<(), Error> {
        while !wire.is_empty() {
            if self.peer.read_tls(&mut wire).unwrap() == 0 {
                return Ok(()); // Behind close_notify.
            }
            self.peer.process_new_packets()?;
        }
        Ok(())
    }

    /// Takes what the peer's side has to send.
    pub(super) fn take_flight(&mut self) -> Vec<u8> {
        let mut flight = Vec::new();
        while self.peer.wants_write() {
            self.peer.write_tls(&mut flight).unwrap();
        }
        flight
    }

    /// Takes the keys from the peer's side.
    pub(super) fn forge(self) -> (End, Forger) {
        let Self { victim, peer } = self;
        let suite = peer.negotiated_cipher_suite().unwrap();
        let secrets = peer.dangerous_extract_secrets().unwrap();
        let forger = Forger {
            sent: secrets.tx.0,
            received: secrets.rx.0,
            encrypter: encrypter(suite, secrets.tx.1),
            decrypter: decrypter(suite, secrets.rx.1),
        };
        (victim, forger)
    }
}

/// Returns configurations of one version that give their keys away. The ciphers are those whose implementation does not
/// insist on the order of sequence numbers.
pub(super) fn configs(version: ProtocolVersion) -> (ServerConfig, ClientConfig) {
    let mut provider = (**Configs::new().client.config().crypto_provider()).clone();
    provider.cipher_suites.retain(|suite| format!("{suite:?}").contains("CHACHA20"));
    let provider = Arc::new(provider);
    let versions: &[&SupportedProtocolVersion] =
        if version == TLS_1_2 { &[&rustls::version::TLS12] } else { &[&rustls::version::TLS13] };
    let identity = Identity::new(NAME);
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (server.enable_secret_extraction, client.enable_secret_extraction) = (true, true);
    (server, client)
}

fn key_and_iv(secrets: ConnectionTrafficSecrets) -> (AeadKey, Iv) {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
        _ => panic!("a cipher that this test does not know"),
    }
}

fn encrypter(
    suite: SupportedCipherSuite,
    secrets: ConnectionTrafficSecrets,
) -> Box<dyn MessageEncrypter> {
    let (key, iv) = key_and_iv(secrets);
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let fixed = suite.aead_alg.key_block_shape().fixed_iv_len;
            let (fixed, explicit) = iv.as_ref().split_at(fixed);
            suite.aead_alg.encrypter(key, fixed, explicit)
        }
    }
}

fn decrypter(
    suite: SupportedCipherSuite,
    secrets: ConnectionTrafficSecrets,
) -> Box<dyn MessageDecrypter> {
    let (key, iv) = key_and_iv(secrets);
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.decrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let fixed = suite.aead_alg.key_block_shape().fixed_iv_len;
            suite.aead_alg.decrypter(key, &iv.as_ref()[..fixed])
        }
    }
}

/// Encrypts and decrypts records with the keys of a connection, in any order and of any type.
pub(super) struct Forger {
    sent: u64,
    received: u64,
    encrypter: Box<dyn MessageEncrypter>,
    decrypter: Box<dyn MessageDecrypter>,
}

impl Forger {
    /// Returns an encrypted record.
    pub(super) fn record(&mut self, kind: u8, payload: &[u8]) -> Vec<u8> {
        let plain = OutboundPlainMessage {
            typ: ContentType::from(kind),
            version: TLS_1_2,
            payload: OutboundChunks::from(payload),
        };
        let sealed = self.encrypter.encrypt(plain, self.sent).unwrap();
        self.sent += 1;
        sealed.encode()
    }

    /// Returns the records on the wire, decrypted.
    pub(super) fn open(&mut self, wire: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut all = Vec::new();
        for (kind, payload) in records(wire) {
            let mut payload = payload.to_vec();
            let sealed = InboundOpaqueMessage::new(ContentType::from(kind), TLS_1_2, &mut payload);
            let plain = self.decrypter.decrypt(sealed, self.received).unwrap();
            self.received += 1;
            all.push((u8::from(plain.typ), plain.payload.to_vec()));
        }
        all
    }
}

/// Asserts that the handler has failed as every failure has to end, and returns its one error.
#[track_caller]
pub(super) fn take_failure(victim: &mut End) -> TlsError {
    victim.settle();
    let error = victim.channel.read_error().expect("an error");
    assert!(victim.channel.read_error().is_none(), "one error, not two");
    let channel = victim.channel.channel().clone();
    assert!(!channel.is_open(), "still open after {error}");
    assert_eq!(channel.pending_bytes(), 0, "held after {error}");
    // Later bytes and the end of the stream change nothing.
    victim.channel.write_inbound(bytes::Bytes::from_static(b"more"));
    victim.channel.finish_inbound();
    assert!(victim.channel.read_error().is_none(), "an error after {error}");
    error.find::<TlsError>().unwrap_or_else(|| panic!("not of TLS: {error}")).clone()
}
