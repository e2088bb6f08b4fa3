//! T04: certificates of clients, verifiers of the program's own, revocation lists.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use waterwheel_tls::rustls::client::danger::HandshakeSignatureValid;
use waterwheel_tls::rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use waterwheel_tls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use waterwheel_tls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use waterwheel_tls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use waterwheel_tls::rustls::{
    self, AlertDescription, CertificateError, DigitallySignedStruct, DistinguishedName,
    ProtocolVersion, RootCertStore, SignatureScheme,
};
use waterwheel_tls::{
    ClientCertificates, ClientTls, ServerTls, TlsConfigError, TlsError, TlsHandshake, pem,
};

use crate::authority::{Authority, connect, der};
use crate::support::{End, Link, NAME};

/// One cipher suite per version: the client that offers only one of TLS 1.2 speaks nothing else.
fn versions() -> [(ProtocolVersion, Vec<rustls::CipherSuite>); 2] {
    let suites = [
        rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        rustls::CipherSuite::TLS13_AES_128_GCM_SHA256,
    ];
    [
        (ProtocolVersion::TLSv1_2, suites[..1].to_vec()),
        (ProtocolVersion::TLSv1_3, suites[1..].to_vec()),
    ]
}

/// A server with a certificate, and the authority of its clients.
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

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.authority.certificate)).unwrap();
        roots.into()
    }

    fn server(&self, clients: ClientCertificates) -> ServerTls {
        let (certificate, key) = &self.server;
        ServerTls::builder()
            .certificate_pem(certificate.as_bytes(), key.as_bytes())
            .client_certificates(clients)
            .build()
            .unwrap()
    }

    fn client(&self, own: Option<&(String, String)>) -> ClientTls {
        self.client_with(own, None)
    }

    fn client_with(
        &self,
        own: Option<&(String, String)>,
        suites: Option<Vec<rustls::CipherSuite>>,
    ) -> ClientTls {
        let roots = self.authority.certificate.as_bytes();
        let mut builder = ClientTls::builder().trust_pem("roots", roots);
        if let Some((certificate, key)) = own {
            builder = builder.certificate_pem(certificate.as_bytes(), key.as_bytes());
        }
        if let Some(suites) = suites {
            builder = builder.cipher_suites(suites);
        }
        builder.build().unwrap()
    }
}

fn tls_error(end: &mut End) -> TlsError {
    let error = end.channel.read_error().expect("an error");
    error.find::<TlsError>().unwrap_or_else(|| panic!("{error}")).clone()
}

fn alert(description: AlertDescription) -> rustls::Error {
    rustls::Error::AlertReceived(description)
}

/// Asserts that the server has refused the client with this alert. Returns the server's error.
fn assert_refused(
    mut link: Link,
    version: ProtocolVersion,
    description: AlertDescription,
) -> String {
    assert!(link.server.events.handshake().is_none(), "{version:?}");
    let error = tls_error(&mut link.server);
    assert!(matches!(error, TlsError::Handshake(_)), "{error}");
    // The client of TLS 1.3 has ended its handshake before the server looks at its certificate.
    let expected = match version {
        ProtocolVersion::TLSv1_3 => TlsError::Protocol(alert(description)),
        _ => TlsError::Handshake(alert(description)),
    };
    assert_eq!(tls_error(&mut link.client), expected, "{version:?}");
    let has_ended = link.client.events.handshake().is_some();
    assert_eq!(has_ended, version == ProtocolVersion::TLSv1_3);
    assert!(!link.client.channel.channel().is_open() && !link.server.channel.channel().is_open());
    error.to_string()
}

fn server_outcome(link: &Link) -> TlsHandshake {
    link.server.events.handshake().expect("a handshake")
}

#[test]
fn t04_a_client_without_a_required_certificate_is_told_so_in_both_versions() {
    let parties = Parties::new();
    let server = parties.server(ClientCertificates::Required(parties.roots()));
    for (version, suites) in versions() {
        let client = parties.client_with(None, Some(suites));
        let link = connect(&server, &client, NAME);
        let error = assert_refused(link, version, AlertDescription::CertificateRequired);
        assert_eq!(error, "the TLS handshake failed: peer sent no certificates");
    }
}

#[test]
fn t04_an_optional_certificate_may_be_missing_but_not_be_wrong() {
    let parties = Parties::new();
    let server = parties.server(ClientCertificates::Optional(parties.roots()));
    let own = parties.authority.ecdsa(&["client.example"]);
    let foreign = Authority::named("another").ecdsa(&["client.example"]);
    for (version, suites) in versions() {
        let client = |own| parties.client_with(own, Some(suites.clone()));
        let link = connect(&server, &client(None), NAME);
        assert_eq!(server_outcome(&link).version, Some(version));
        assert_eq!(server_outcome(&link).peer_certificates, []);
        let link = connect(&server, &client(Some(&own)), NAME);
        assert_eq!(server_outcome(&link).peer_certificates, [der(&own.0)]);

        let link = connect(&server, &client(Some(&foreign)), NAME);
        let error = assert_refused(link, version, AlertDescription::UnknownCA);
        assert_eq!(error, "the TLS handshake failed: invalid peer certificate: UnknownIssuer");
    }
}

#[test]
fn t04_an_expired_certificate_of_a_client_is_refused() {
    let parties = Parties::new();
    let server = parties.server(ClientCertificates::Required(parties.roots()));
    let mut params = rcgen::CertificateParams::new(vec!["client.example".into()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let expired = params.signed_by(&key, &parties.authority.issuer).unwrap().pem();
    let own = (expired, key.serialize_pem());
    for (version, suites) in versions() {
        let link = connect(&server, &parties.client_with(Some(&own), Some(suites)), NAME);
        let error = assert_refused(link, version, AlertDescription::CertificateExpired);
        assert!(error.contains("certificate expired"), "{error}");
    }
}

/// Decides by a function; signatures are checked.
#[derive(Debug)]
struct Decision(fn(&CertificateDer<'_>) -> Result<(), rustls::Error>, Arc<CryptoProvider>);

impl Decision {
    fn new(decide: fn(&CertificateDer<'_>) -> Result<(), rustls::Error>) -> Arc<Self> {
        let provider = Parties::new().client(None).config().crypto_provider().clone();
        Arc::new(Self(decide, provider))
    }
}

impl ClientCertVerifier for Decision {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        (self.0)(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.1.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.1.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Decision {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        (self.0)(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ClientCertVerifier::verify_tls12_signature(self, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ClientCertVerifier::verify_tls13_signature(self, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ClientCertVerifier::supported_verify_schemes(self)
    }
}

/// The reason of a verifier.
#[derive(Debug, thiserror::Error)]
#[error("badge 4711 was returned")]
struct BadgeReturned;

fn refuse(_: &CertificateDer<'_>) -> Result<(), rustls::Error> {
    let reason = rustls::OtherError(Arc::new(BadgeReturned));
    Err(rustls::Error::InvalidCertificate(CertificateError::Other(reason)))
}

fn panic_at(_: &CertificateDer<'_>) -> Result<(), rustls::Error> {
    panic!("the verifier is broken");
}

#[test]
fn t04_a_verifier_of_the_program_accepts_or_refuses_with_its_reason() {
    let parties = Parties::new();
    // Signed by an authority that the server does not know.
    let own = Authority::named("another").ecdsa(&["client.example"]);
    let server = parties.server(ClientCertificates::Verified(Decision::new(|_| Ok(()))));
    let link = connect(&server, &parties.client(Some(&own)), NAME);
    assert_eq!(server_outcome(&link).peer_certificates, [der(&own.0)]);

    let server = parties.server(ClientCertificates::Verified(Decision::new(refuse)));
    for (version, suites) in versions() {
        let link = connect(&server, &parties.client_with(Some(&own), Some(suites)), NAME);
        let error = assert_refused(link, version, AlertDescription::CertificateUnknown);
        assert!(error.contains("badge 4711 was returned"), "{error}");
    }
}

#[test]
fn t04_a_verifier_that_panics_costs_one_connection() {
    let parties = Parties::new();
    let own = parties.authority.ecdsa(&["client.example"]);
    let server = parties.server(ClientCertificates::Verified(Decision::new(panic_at)));
    for (_, suites) in versions() {
        let client = parties.client_with(Some(&own), Some(suites));
        let link = connect(&server, &client, NAME);
        assert!(link.server.events.handshake().is_none());
        assert!(!link.server.channel.channel().is_open());
        let cause = link.server.channel.channel().close_cause().expect("a cause");
        assert!(cause.to_string().contains("the verifier is broken"), "{cause}");
    }
    // On the client's side.
    let server = parties.server(ClientCertificates::Ignored);
    let builder = || ClientTls::builder();
    let client = builder().dangerous_verifier(Decision::new(panic_at)).build().unwrap();
    let link = connect(&server, &client, NAME);
    assert!(!link.client.channel.channel().is_open());
    // The configuration goes on.
    let link = connect(&server, &parties.client(None), NAME);
    assert_eq!(server_outcome(&link).server_name.as_deref(), Some(NAME));
}

#[test]
fn t04_a_client_may_bring_its_own_verifier_of_servers() {
    let parties = Parties::new();
    let server = parties.server(ClientCertificates::Ignored);
    let client = |decide| ClientTls::builder().dangerous_verifier(Decision::new(decide));
    let link = connect(&server, &client(|_| Ok(())).build().unwrap(), "other.example");
    assert!(link.client.events.handshake().is_some());
    let mut link = connect(&server, &client(refuse).build().unwrap(), NAME);
    let error = tls_error(&mut link.client).to_string();
    assert!(error.contains("badge 4711 was returned"), "{error}");

    let with_roots = client(refuse).trust_roots(parties.roots()).build().unwrap_err();
    let expected = "a verifier of the program's own takes no roots or revocation lists";
    assert_eq!(with_roots.to_string(), expected);
}

/// An authority with a list of what it has revoked, and a directory for it.
struct Revocation {
    at: PathBuf,
}

impl Revocation {
    fn new(test: &str) -> Self {
        let at = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        fs::create_dir_all(&at).unwrap();
        Self { at }
    }

    /// Writes a list as PEM and as DER. Returns the paths.
    fn write(&self, authority: &Authority, revoked: u64) -> [PathBuf; 2] {
        let date = rcgen::date_time_ymd;
        let revoked = rcgen::RevokedCertParams {
            serial_number: revoked.into(),
            revocation_time: date(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = rcgen::CertificateRevocationListParams {
            this_update: date(2024, 1, 1),
            next_update: date(2024, 2, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&authority.issuer).unwrap();
        let paths = [self.at.join("list.pem"), self.at.join("list.crl")];
        fs::write(&paths[0], list.pem().unwrap()).unwrap();
        fs::write(&paths[1], list.der()).unwrap();
        paths
    }
}

fn sign_with_serial(authority: &Authority, name: &str, serial: u64) -> (String, String) {
    let mut params = rcgen::CertificateParams::new(vec![name.into()]).unwrap();
    params.serial_number = Some(serial.into());
    let key = rcgen::KeyPair::generate().unwrap();
    (params.signed_by(&key, &authority.issuer).unwrap().pem(), key.serialize_pem())
}

#[test]
fn t04_revoked_certificates_are_refused_on_both_sides() {
    let parties = Parties::new();
    let lists = Revocation::new("t04_revoked").write(&parties.authority, 7);
    let good = sign_with_serial(&parties.authority, NAME, 8);
    let revoked = sign_with_serial(&parties.authority, NAME, 7);
    for list in &lists {
        let server = ServerTls::builder()
            .certificate_pem(revoked.0.as_bytes(), revoked.1.as_bytes())
            .client_certificates(ClientCertificates::Required(parties.roots()))
            .revocation_list_file(list)
            .build()
            .unwrap();
        server_outcome(&connect(&server, &parties.client(Some(&good)), NAME));
        let link = connect(&server, &parties.client(Some(&revoked)), NAME);
        let version = ProtocolVersion::TLSv1_3;
        let error = assert_refused(link, version, AlertDescription::CertificateRevoked);
        assert!(error.contains("Revoked"), "{error}");

        let client = ClientTls::builder()
            .trust_roots(parties.roots())
            .certificate_pem(good.0.as_bytes(), good.1.as_bytes())
            .revocation_list_file(list)
            .build()
            .unwrap();
        let mut link = connect(&server, &client, NAME);
        let expected = rustls::Error::InvalidCertificate(CertificateError::Revoked);
        assert_eq!(tls_error(&mut link.client), TlsError::Handshake(expected));
    }
}

#[test]
fn t04_a_revocation_list_that_cannot_be_used_is_named() {
    let parties = Parties::new();
    let at = Revocation::new("t04_bad_list");
    let lists = at.write(&parties.authority, 7);
    let server = || {
        let (certificate, key) = &parties.server;
        ServerTls::builder().certificate_pem(certificate.as_bytes(), key.as_bytes())
    };
    let error = server().revocation_list_file(&lists[0]).build().unwrap_err();
    assert!(matches!(error, TlsConfigError::Incomplete(_)), "{error}");

    let mut der = fs::read(&lists[1]).unwrap();
    der.truncate(20);
    fs::write(&lists[1], der).unwrap();
    let error = pem::load_revocation_lists(&lists[1]).unwrap_err().to_string();
    assert!(error.starts_with("revocation list 1 of `") && error.contains("list.crl"), "{error}");
    fs::write(&lists[0], "nothing").unwrap();
    let error = server().revocation_list_file(&lists[0]).build().unwrap_err().to_string();
    assert_eq!(error, format!("`{}` contains no revocation list", lists[0].display()));
}

#[test]
fn t04_roots_for_clients_come_from_a_file() {
    let parties = Parties::new();
    let at = Revocation::new("t04_client_roots").at.join("clients.crt");
    fs::write(&at, &parties.authority.certificate).unwrap();
    let own = parties.authority.ecdsa(&["client.example"]);
    let required = ClientCertificates::required_from_file(&at).unwrap();
    let link = connect(&parties.server(required), &parties.client(Some(&own)), NAME);
    assert_eq!(server_outcome(&link).peer_certificates, [der(&own.0)]);
    let optional = ClientCertificates::optional_from_file(&at).unwrap();
    let link = connect(&parties.server(optional), &parties.client(None), NAME);
    assert_eq!(server_outcome(&link).peer_certificates, []);
    let error = ClientCertificates::required_from_file("/no/clients.crt").unwrap_err();
    assert!(error.to_string().contains("/no/clients.crt"), "{error}");
    // No root at all would refuse everybody.
    let none = ClientCertificates::Required(RootCertStore::empty().into());
    let (certificate, key) = &parties.server;
    let server = ServerTls::builder().certificate_pem(certificate.as_bytes(), key.as_bytes());
    let error = server.client_certificates(none).build().unwrap_err();
    assert!(matches!(error, TlsConfigError::Invalid(_)), "{error}");
}
