//! T01: versions, cipher suites and key exchanges that are chosen.

use waterwheel_tls::rustls::{
    self, AlertDescription, CipherSuite, NamedGroup, PeerIncompatible, ProtocolVersion,
};
use waterwheel_tls::{ClientTls, ClientTlsBuilder, ServerTls, ServerTlsBuilder, TlsError};

use crate::support::{Configs, Identity, Link, NAME};

const TLS12_SUITE: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
const TLS13_SUITE: CipherSuite = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;

fn builders() -> (ServerTlsBuilder, ClientTlsBuilder) {
    let identity = Identity::new(NAME);
    let (certificate, key) = (identity.certificate.as_bytes(), identity.key.as_bytes());
    let server = ServerTls::builder().certificate_pem(certificate, key);
    (server, ClientTls::builder().trust_pem("roots", certificate))
}

fn connect(server: ServerTlsBuilder, client: ClientTlsBuilder) -> Link {
    let configs = Configs { server: server.build().unwrap(), client: client.build().unwrap() };
    let mut link = Link::with(&configs, Default::default());
    link.exchange();
    link
}

#[test]
fn t01_tls_1_3_alone_refuses_a_peer_with_1_2() {
    let (server, client) = builders();
    let mut link = connect(server.tls13_only(), client.cipher_suites([TLS12_SUITE]));
    let error = link.server.channel.read_error().unwrap();
    let reason = rustls::Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled);
    let expected = TlsError::Handshake(reason);
    let alternative = PeerIncompatible::SupportedVersionsExtensionRequired;
    let alternative = TlsError::Handshake(rustls::Error::PeerIncompatible(alternative));
    let found = error.find::<TlsError>();
    assert!(found == Some(&expected) || found == Some(&alternative), "{error}");
    let alert = rustls::Error::AlertReceived(AlertDescription::ProtocolVersion);
    let error = link.client.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::Handshake(alert)));

    let (server, client) = builders();
    let mut link = connect(server.cipher_suites([TLS12_SUITE]), client.tls13_only());
    assert!(link.client.channel.read_error().is_some());
    assert!(link.server.events.handshake().is_none());

    let (server, client) = builders();
    let link = connect(server.tls13_only(), client.tls13_only());
    let outcome = link.server.events.handshake().unwrap();
    assert_eq!(outcome.version, Some(ProtocolVersion::TLSv1_3));
}

#[test]
fn t01_cipher_suites_and_key_exchanges_are_chosen_by_name() {
    let (server, client) = builders();
    let link = connect(server.cipher_suites([TLS13_SUITE]), client);
    assert_eq!(link.client.events.handshake().unwrap().cipher_suite, Some(TLS13_SUITE));
    let (server, client) = builders();
    let link = connect(server.key_exchanges([NamedGroup::secp384r1]), client);
    assert!(link.client.events.handshake().is_some(), "after a HelloRetryRequest");
    let (server, client) = builders();
    let mut link = connect(
        server.key_exchanges([NamedGroup::secp384r1]),
        client.key_exchanges([NamedGroup::X25519]),
    );
    let alert = rustls::Error::AlertReceived(AlertDescription::HandshakeFailure);
    let error = link.client.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::Handshake(alert)));
}

#[test]
fn t01_choices_that_leave_nothing_are_refused_when_the_configuration_is_built() {
    let unknown = CipherSuite::TLS13_AES_128_CCM_SHA256;
    let error = builders().0.cipher_suites([TLS13_SUITE, unknown]).build().unwrap_err();
    let expected = "the cipher suite TLS13_AES_128_CCM_SHA256 is not supported by the \
                    provider of the cryptography";
    assert_eq!(error.to_string(), expected);
    let error = builders().1.key_exchanges([NamedGroup::FFDHE2048]).build().unwrap_err();
    assert!(error.to_string().contains("the key exchange FFDHE2048"), "{error}");
    for error in [
        builders().0.cipher_suites([]).build().unwrap_err(),
        builders().0.key_exchanges([]).build().unwrap_err(),
        builders().0.tls13_only().cipher_suites([TLS12_SUITE]).build().unwrap_err(),
    ] {
        assert!(matches!(error, waterwheel_tls::TlsConfigError::Invalid(_)), "{error}");
    }
    builders().1.cipher_suites([]).build().unwrap_err();
}
