//! T01, T02, T04: handshakes and their outcome.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::ChannelOptions;
use waterwheel_executor::ImmediateExecutor;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::rustls::{AlertDescription, ProtocolVersion};
use waterwheel_tls::{
    ClientCertificates, ClientTls, ServerTls, TlsError, TlsHandler, TlsHandshake, TlsOptions,
};

use crate::support::{Configs, End, Identity, Link, NAME};

#[test]
fn t02_the_outcome_is_an_event_with_version_cipher_alpn_name_and_certificates() {
    let link = Link::established(TlsOptions::default());
    let (client, server) =
        (link.client.events.handshake().unwrap(), link.server.events.handshake().unwrap());
    assert_eq!(client.version, Some(ProtocolVersion::TLSv1_3));
    assert_eq!((client.version, client.cipher_suite), (server.version, server.cipher_suite));
    assert!(client.cipher_suite.is_some());
    assert_eq!(client.alpn.as_deref(), Some(&b"b"[..]), "the server's preference");
    assert_eq!(server.alpn, client.alpn);
    assert_eq!(server.server_name.as_deref(), Some(NAME));
    assert_eq!((client.peer_certificates.len(), server.peer_certificates.len()), (1, 0));
    assert!(!client.is_resumed);
}

#[test]
fn t01_tls_1_2_works_in_pieces_of_one_byte() {
    let mut link = Link::with(&Configs::tls12(), TlsOptions::default());
    link.cut = 1;
    link.exchange();
    assert_eq!(link.server.events.handshake().unwrap().version, Some(ProtocolVersion::TLSv1_2));
    drop(link.client.channel.write_outbound(Bytes::from_static(b"hello")));
    link.exchange();
    assert_eq!(link.server.received(), b"hello");
}

#[test]
fn t02_a_promise_gets_the_outcome() {
    let configs = Configs::new();
    let (promise, mut outcome) = ImmediateExecutor.new_promise::<TlsHandshake>();
    let tls = TlsHandler::server(configs.server.clone()).complete_handshake(promise);
    let mut link = Link::with(&configs, TlsOptions::default());
    link.server = End::new(tls, ChannelOptions::default());
    link.exchange();
    assert_eq!(outcome.try_take().unwrap().unwrap(), link.server.events.handshake().unwrap());
}

#[test]
fn t02_a_handshake_that_takes_too_long_fails_with_the_limit() {
    let (promise, mut outcome) = ImmediateExecutor.new_promise::<TlsHandshake>();
    let limit = Duration::from_secs(5);
    let options = TlsOptions::builder().handshake_timeout(limit).build().unwrap();
    let tls = TlsHandler::server(Configs::new().server).with_options(options);
    let mut server = End::new(tls.complete_handshake(promise), ChannelOptions::default());
    let write = server.channel.write_outbound(Bytes::from_static(b"never sent"));
    server.channel.advance(limit - Duration::from_nanos(1));
    assert!(server.channel.channel().is_open());
    server.channel.advance(Duration::from_nanos(1));
    let expected = TlsError::HandshakeTimeout { limit };
    assert_eq!(server.channel.read_error().unwrap().find::<TlsError>(), Some(&expected));
    assert_eq!(outcome.try_take().unwrap().unwrap_err().find::<TlsError>(), Some(&expected));
    assert_eq!(write.join().unwrap_err().find::<TlsError>(), Some(&expected));
    assert!(!server.channel.channel().is_open());
}

#[test]
fn t02_the_limit_of_the_handshake_does_not_apply_after_it() {
    let mut link = Link::established(TlsOptions::default());
    link.server.channel.advance(Duration::from_secs(60));
    assert!(link.server.channel.channel().is_open());
}

#[test]
fn t02_a_stream_that_ends_in_the_handshake_is_reported() {
    let mut link = Link::new();
    link.client.sent();
    link.client.channel.finish_inbound();
    let error = link.client.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::HandshakeCutOff));
    assert!(!link.client.channel.channel().is_open());
}

#[test]
fn t02_without_auto_read_the_handler_reads_for_its_handshake_only() {
    let configs = Configs::new();
    let mut link = Link::with(&configs, TlsOptions::default());
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    link.server = End::new(TlsHandler::server(configs.server.clone()), options);
    link.exchange();
    assert_eq!(link.server.events.take(), ["handshake"]);
    drop(link.client.channel.write_outbound(Bytes::from_static(b"data")));
    link.exchange();
    assert_eq!(link.server.received(), b"", "nobody has asked for data");
    link.server.channel.read();
    assert_eq!(link.server.received(), b"data");
}

#[test]
fn t02_without_auto_read_a_read_goes_on_over_records_without_data() {
    let configs = Configs::new();
    let mut link = Link::with(&configs, TlsOptions::default());
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let name = ServerName::try_from(NAME).unwrap();
    link.client = End::new(TlsHandler::client(configs.client.clone(), name), options);
    link.exchange();
    assert!(link.client.channel.unread() > 0, "the tickets of the server");
    link.client.channel.read();
    drop(link.server.channel.write_outbound(Bytes::from_static(b"data")));
    link.exchange();
    assert_eq!(link.client.received(), b"data", "the read had brought tickets only");
    drop(link.server.channel.write_outbound(Bytes::from_static(b"more")));
    link.exchange();
    assert_eq!(link.client.received(), b"", "a read is for one message");
}

#[test]
fn t01_a_name_that_the_certificate_does_not_have_is_refused_with_an_alert() {
    let configs = Configs::new();
    let mut link = Link::with(&configs, TlsOptions::default());
    let name = ServerName::try_from("other.example").unwrap();
    let tls = TlsHandler::client(configs.client.clone(), name);
    link.client = End::new(tls, ChannelOptions::default());
    link.exchange();
    let error = link.client.channel.read_error().unwrap();
    assert!(
        matches!(
            error.find::<TlsError>(),
            Some(TlsError::Handshake(waterwheel_tls::rustls::Error::InvalidCertificate(_)))
        ),
        "{error}"
    );
    let error = link.server.channel.read_error().unwrap();
    let alert = waterwheel_tls::rustls::Error::AlertReceived(AlertDescription::BadCertificate);
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::Handshake(alert)));
    assert!(!link.client.channel.channel().is_open() && !link.server.channel.channel().is_open());
}

#[test]
fn t04_a_required_certificate_of_the_client_is_verified_and_reported() {
    let (server, client) = (Identity::new(NAME), Identity::new("client.example"));
    let mut roots = waterwheel_tls::rustls::RootCertStore::empty();
    let parsed = {
        use waterwheel_tls::rustls::pki_types::pem::PemObject;
        waterwheel_tls::rustls::pki_types::CertificateDer::from_pem_slice(
            client.certificate.as_bytes(),
        )
        .unwrap()
    };
    roots.add(parsed.clone()).unwrap();
    let server_config = ServerTls::builder()
        .certificate_pem(server.certificate.as_bytes(), server.key.as_bytes())
        .client_certificates(ClientCertificates::Required(roots.into()))
        .build()
        .unwrap();
    let trusting = || ClientTls::builder().trust_pem("roots", server.certificate.as_bytes());
    let with = trusting().certificate_pem(client.certificate.as_bytes(), client.key.as_bytes());

    let configs = Configs { server: server_config, client: with.build().unwrap() };
    let mut link = Link::with(&configs, TlsOptions::default());
    link.exchange();
    assert_eq!(link.server.events.handshake().unwrap().peer_certificates, [parsed]);

    let configs = Configs { client: trusting().build().unwrap(), ..configs };
    let mut link = Link::with(&configs, TlsOptions::default());
    link.exchange();
    assert!(link.server.events.handshake().is_none());
    let error = link.server.channel.read_error().unwrap();
    let expected = TlsError::Handshake(waterwheel_tls::rustls::Error::NoCertificatesPresented);
    assert_eq!(error.find::<TlsError>(), Some(&expected));
}
