//! T07: sessions that are resumed, and limits of what is kept for that.

use waterwheel_testkit::embedded::Embedded;
use waterwheel_tls::rustls::{CipherSuite, ProtocolVersion};
use waterwheel_tls::{
    ClientCertificates, ClientTls, ClientTlsBuilder, ServerTls, ServerTlsBuilder, TlsConfigError,
    TlsHandler,
};

use crate::authority::{Authority, connect, der};
use crate::support::NAME;

struct Parties {
    authority: Authority,
    server: (String, String),
}

impl Parties {
    fn new() -> Self {
        let authority = Authority::new();
        let server = authority.ecdsa(&[NAME]);
        Self { authority, server }
    }

    fn server(&self) -> ServerTlsBuilder {
        ServerTls::builder().certificate_pem(self.server.0.as_bytes(), self.server.1.as_bytes())
    }

    fn client(&self, version: ProtocolVersion) -> ClientTlsBuilder {
        let client = ClientTls::builder().trust_pem("roots", self.authority.certificate.as_bytes());
        match version {
            ProtocolVersion::TLSv1_2 => {
                client.cipher_suites([CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256])
            }
            _ => client,
        }
    }
}

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3];

/// Connects, and returns whether a session was resumed, which both sides must agree about.
fn resumes(server: &ServerTls, client: &ClientTls, version: ProtocolVersion) -> bool {
    let link = connect(server, client, NAME);
    let outcomes = [&link.client, &link.server].map(|end| end.events.handshake().unwrap());
    assert_eq!(outcomes[0].version, Some(version));
    assert_eq!(outcomes[0].is_resumed, outcomes[1].is_resumed);
    outcomes[0].is_resumed
}

#[test]
fn t07_sessions_are_resumed_from_the_cache_and_by_stateless_tickets() {
    let parties = Parties::new();
    for version in VERSIONS {
        for server in [
            parties.server(),
            parties.server().stateless_tickets(),
            parties.server().stateless_tickets().session_cache(0),
        ] {
            let server = server.build().unwrap();
            let client = parties.client(version).build().unwrap();
            assert!(!resumes(&server, &client, version));
            for _ in 0..3 {
                assert!(resumes(&server, &client, version), "{version:?}");
            }
        }
    }
}

#[test]
fn t07_resumption_can_be_turned_off_on_either_side() {
    let parties = Parties::new();
    let resumes_with = |server: ServerTlsBuilder, client: ClientTlsBuilder, version| {
        let (server, client) = (server.build().unwrap(), client.build().unwrap());
        resumes(&server, &client, version);
        resumes(&server, &client, version)
    };
    for version in VERSIONS {
        assert!(!resumes_with(parties.server().session_cache(0), parties.client(version), version));
        let without = parties.client(version).session_cache(0);
        assert!(!resumes_with(parties.server().stateless_tickets(), without, version));
        // Tickets are of TLS 1.3 alone.
        let is_resumed =
            resumes_with(parties.server().tickets(0), parties.client(version), version);
        assert_eq!(is_resumed, version == ProtocolVersion::TLSv1_2);
    }
}

#[test]
fn t07_the_session_cache_keeps_the_last_sessions_only() {
    let parties = Parties::new();
    for version in VERSIONS {
        let server = parties.server().session_cache(3).tickets(1).build().unwrap();
        let clients: Vec<_> = (0..10).map(|_| parties.client(version).build().unwrap()).collect();
        for client in &clients {
            assert!(!resumes(&server, client, version));
        }
        // From the oldest: a session that is made afterwards takes the place of another.
        assert!(!resumes(&server, &clients[0], version));
        assert!(resumes(&server, &clients[9], version), "{version:?}");
    }
}

#[test]
fn t07_a_resumed_session_has_the_certificate_of_the_first_handshake() {
    let parties = Parties::new();
    let own = parties.authority.ecdsa(&["client.example"]);
    let mut roots = waterwheel_tls::rustls::RootCertStore::empty();
    roots.add(der(&parties.authority.certificate)).unwrap();
    let clients = ClientCertificates::Required(roots.into());
    for version in VERSIONS {
        for server in [parties.server(), parties.server().stateless_tickets()] {
            let server = server.client_certificates(clients.clone()).build().unwrap();
            let client =
                parties.client(version).certificate_pem(own.0.as_bytes(), own.1.as_bytes());
            let client = client.build().unwrap();
            assert!(!resumes(&server, &client, version));
            let link = connect(&server, &client, NAME);
            let outcome = link.server.events.handshake().unwrap();
            assert!(outcome.is_resumed, "{version:?}");
            assert_eq!(outcome.peer_certificates, [der(&own.0)]);
        }
    }
}

#[test]
fn t07_limits_that_are_too_large_are_refused() {
    let parties = Parties::new();
    let error = parties.server().session_cache(usize::MAX).build().unwrap_err();
    let expected =
        TlsConfigError::TooLarge { option: "session_cache", value: usize::MAX, max: 1 << 20 };
    assert_eq!(error, expected);
    parties.client(ProtocolVersion::TLSv1_3).session_cache(usize::MAX).build().unwrap_err();
    let error = parties.server().tickets(17).build().unwrap_err();
    assert_eq!(error.to_string(), "`tickets` is 17; at most 16 is allowed");
}

#[test]
fn t07_early_data_is_off_and_a_configuration_that_accepts_it_is_refused() {
    let parties = Parties::new();
    let server = parties.server().build().unwrap();
    assert_eq!(server.config().unwrap().max_early_data_size, 0);
    assert!(!parties.client(ProtocolVersion::TLSv1_3).build().unwrap().config().enable_early_data);
    let mut config = (**server.config().unwrap()).clone();
    config.max_early_data_size = 1;
    let tls = TlsHandler::server(ServerTls::from(config));
    let built = Embedded::builder().stream().build(|edit| {
        edit.add_last("tls", tls)?;
        Ok(())
    });
    let error = built.unwrap_err();
    assert!(error.to_string().contains("max_early_data_size"), "{error}");
}
