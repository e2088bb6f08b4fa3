//! T03, T04: certificates by name, and certificates that are replaced while the server runs.

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use waterwheel_tls::rustls::client::WebPkiServerVerifier;
use waterwheel_tls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use waterwheel_tls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use waterwheel_tls::rustls::{
    self, AlertDescription, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use waterwheel_tls::{ClientTls, ServerCertificates, ServerTls, TlsConfigError, TlsError, pem};

use crate::authority::{Authority, Files, connect, der, presented};
use crate::support::NAME;

#[test]
fn t03_the_certificate_is_chosen_by_exact_name_then_wildcard_then_default() {
    let authority = Authority::new();
    let first = authority.ecdsa(&["first.example", "127.0.0.1"]);
    let exact = authority.ecdsa(&["www.wheel.example"]);
    let wildcard = authority.ecdsa(&["*.wheel.example", "wheel.example"]);
    let server = ServerTls::builder()
        .certificate_pem(first.0.as_bytes(), first.1.as_bytes())
        .certificate_pem(exact.0.as_bytes(), exact.1.as_bytes())
        .certificate_pem(wildcard.0.as_bytes(), wildcard.1.as_bytes())
        .build()
        .unwrap();
    let client = authority.trusting_client();
    for (name, expected) in [
        ("first.example", &first),
        ("FIRST.Example.", &first),
        ("127.0.0.1", &first),
        ("www.wheel.example", &exact),
        ("WWW.wheel.example", &exact),
        ("wheel.example", &wildcard),
        ("mail.wheel.example", &wildcard),
        ("xn--mhle-0ra.wheel.example", &wildcard),
    ] {
        assert!(presented(&server, &client, name) == der(&expected.0), "{name}");
    }
    // No certificate is for these: the client refuses the default.
    for name in ["a.b.wheel.example", "other.example"] {
        let mut link = connect(&server, &client, name);
        let error = link.client.channel.read_error().unwrap();
        let error = error.find::<TlsError>();
        let is_refused =
            matches!(error, Some(TlsError::Handshake(rustls::Error::InvalidCertificate(_))));
        assert!(is_refused, "{name}: {error:?}");
    }
}

#[test]
fn t03_unknown_names_are_refused_by_option() {
    let authority = Authority::new();
    let (certificate, key) = authority.ecdsa(&[NAME, "127.0.0.1"]);
    let certificates = ServerCertificates::builder()
        .pem(certificate.as_bytes(), key.as_bytes())
        .refuse_unknown_names()
        .build()
        .unwrap();
    let server = ServerTls::builder().certificates(&certificates).build().unwrap();
    let client = authority.trusting_client();
    presented(&server, &client, NAME);
    // The second client sends no name.
    for name in ["other.example", "127.0.0.1"] {
        let mut link = connect(&server, &client, name);
        let alert = rustls::Error::AlertReceived(AlertDescription::AccessDenied);
        let error = link.client.channel.read_error().unwrap();
        assert_eq!(error.find::<TlsError>(), Some(&TlsError::Handshake(alert)));
        let error = link.server.channel.read_error().unwrap().to_string();
        assert!(error.contains("no server certificate chain resolved"), "{error}");
    }
}

#[test]
fn t03_names_can_be_given_and_must_be_in_the_certificate() {
    let authority = Authority::new();
    let (certificate, key) = authority.ecdsa(&["a.example", "*.a.example", "b.example"]);
    let build = |names: &[&str]| {
        ServerCertificates::builder()
            .pem(certificate.as_bytes(), key.as_bytes())
            .for_names(names.iter().copied())
            .build()
    };
    assert_eq!(
        build(&["*.A.example", "b.example."]).unwrap().names(),
        ["*.a.example", "b.example"]
    );
    assert_eq!(build(&["x.a.example"]).unwrap().names(), ["x.a.example"]);
    for (name, expected) in [
        (
            "*.b.example",
            "the certificate of `the given certificates` is not valid for the name `*.b.example`",
        ),
        (
            "c.example",
            "the certificate of `the given certificates` is not valid for the name `c.example`",
        ),
        (
            "mühle.example",
            "`mühle.example` is not a name of a server: write international names in their ASCII form, `xn--…`",
        ),
        (
            "a*.example",
            "`a*.example` is not a name of a server: a wildcard is `*` as the whole first label",
        ),
        ("*", "`*` is not a name of a server: a wildcard is `*` as the whole first label"),
        (
            "127.0.0.1",
            "`127.0.0.1` is not a name of a server: clients do not send IP addresses as names",
        ),
        ("a b", "`a b` is not a name of a server: not a DNS name"),
    ] {
        assert_eq!(build(&[name]).unwrap_err().to_string(), expected);
    }
    let error = ServerCertificates::builder().for_names(["a.example"]).build().unwrap_err();
    assert_eq!(error.to_string(), "`for_names` follows a certificate");
    let both = ServerTls::builder()
        .certificates(&build(&["b.example"]).unwrap())
        .certificate_pem(certificate.as_bytes(), key.as_bytes());
    assert!(matches!(both.build(), Err(TlsConfigError::Incomplete(_))));
}

#[test]
fn t03_a_name_of_two_certificates_and_a_certificate_without_name_are_refused() {
    let authority = Authority::new();
    let one = authority.ecdsa(&["a.example", "A.example"]);
    let two = authority.ecdsa(&["b.example", "a.EXAMPLE"]);
    let (first, second) = (Files::new("t03_duplicate_1"), Files::new("t03_duplicate_2"));
    first.write(&one);
    second.write(&two);
    let both =
        || ServerCertificates::builder().files(&first.0, &first.1).files(&second.0, &second.1);
    let expected = TlsConfigError::DuplicateName {
        name: "a.example".into(),
        first: first.0.display().to_string(),
        second: second.0.display().to_string(),
    };
    assert_eq!(both().build().unwrap_err(), expected);
    assert_eq!(
        both().for_names(["b.example"]).build().unwrap().names(),
        ["a.example", "b.example"]
    );

    // The default needs no name, others do.
    second.write(&authority.ecdsa(&["127.0.0.1"]));
    let error = both().build().unwrap_err();
    let certificate = second.0.display().to_string();
    assert_eq!(error, TlsConfigError::NoServerName { certificate });
    let certificates = ServerCertificates::from_files(&second.0, &second.1).unwrap();
    assert_eq!(certificates.names(), [""; 0]);
    let server = ServerTls::builder().certificates(&certificates).build().unwrap();
    presented(&server, &authority.trusting_client(), "127.0.0.1");
}

/// Accepts the signatures of some schemes only.
#[derive(Debug)]
struct OnlySchemes(Arc<WebPkiServerVerifier>, Vec<SignatureScheme>);

impl ServerCertVerifier for OnlySchemes {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.clone()
    }
}

#[test]
fn t03_a_name_may_have_keys_of_different_kinds_chosen_by_the_clients_signatures() {
    let authority = Authority::new();
    let ecdsa = authority.ecdsa(&[NAME]);
    let rsa = authority.sign(&[NAME], &rcgen::PKCS_RSA_SHA256);
    let server = ServerTls::builder()
        .certificate_pem(ecdsa.0.as_bytes(), ecdsa.1.as_bytes())
        .certificate_pem(rsa.0.as_bytes(), rsa.1.as_bytes())
        .build()
        .unwrap();
    let client = authority.trusting_client();
    assert!(presented(&server, &client, NAME) == der(&ecdsa.0), "the first of them");

    let only = |schemes: &[SignatureScheme]| {
        let provider = client.config().crypto_provider().clone();
        let mut roots = RootCertStore::empty();
        roots.add(der(&authority.certificate)).unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
        let verifier = Arc::new(OnlySchemes(verifier.unwrap(), schemes.to_vec()));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        ClientTls::from(config)
    };
    let rsa_only = only(&[SignatureScheme::RSA_PSS_SHA256]);
    assert!(presented(&server, &rsa_only, NAME) == der(&rsa.0));
    // The default has both kinds too: the client gets as far as the name.
    let mut link = connect(&server, &rsa_only, "other.example");
    let error = link.client.channel.read_error().unwrap();
    let error = error.find::<TlsError>();
    let is_refused =
        matches!(error, Some(TlsError::Handshake(rustls::Error::InvalidCertificate(_))));
    assert!(is_refused, "{error:?}");
    let mut link = connect(&server, &only(&[SignatureScheme::ED25519]), NAME);
    let alert = rustls::Error::AlertReceived(AlertDescription::HandshakeFailure);
    let error = link.client.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::Handshake(alert)));
}

#[test]
fn t04_new_handshakes_take_reloaded_certificates_and_connections_stay() {
    let authority = Authority::new();
    let files = Files::new("t04_reload");
    let (old, new) = (authority.ecdsa(&[NAME]), authority.ecdsa(&[NAME, "new.example"]));
    files.write(&old);
    let certificates = ServerCertificates::from_files(&files.0, &files.1).unwrap();
    let server = ServerTls::builder().certificates(&certificates).build().unwrap();
    let client = || authority.trusting_client();
    let mut before = connect(&server, &client(), NAME);
    assert!(before.client.events.handshake().unwrap().peer_certificates[0] == der(&old.0));

    files.write(&new);
    assert!(presented(&server, &client(), NAME) == der(&old.0), "not yet");
    certificates.clone().reload().unwrap();
    assert!(presented(&server, &client(), NAME) == der(&new.0));
    assert_eq!(certificates.names(), ["new.example", NAME]);
    drop(before.client.channel.write_outbound(Bytes::from_static(b"still here")));
    before.exchange();
    assert_eq!(before.server.received(), b"still here");
}

#[test]
fn t04_a_reload_that_fails_changes_nothing_and_names_file_and_reason() {
    let authority = Authority::new();
    let files = Files::new("t04_failing_reload");
    let (old, new) = (authority.ecdsa(&[NAME]), authority.ecdsa(&[NAME]));
    files.write(&old);
    let certificates = ServerCertificates::from_files(&files.0, &files.1).unwrap();
    let server = ServerTls::builder().certificates(&certificates).build().unwrap();
    let is_old = || presented(&server, &authority.trusting_client(), NAME) == der(&old.0);

    // The key is still that of the old certificate.
    fs::write(&files.0, &new.0).unwrap();
    let error = certificates.reload().unwrap_err();
    assert!(matches!(&error, TlsConfigError::InvalidIdentity { .. }), "{error}");
    let (file, key) = (files.0.display().to_string(), files.1.display().to_string());
    assert!(error.to_string().contains(&file) && error.to_string().contains(&key), "{error}");
    assert!(is_old());

    fs::write(&files.0, &new.0[..200]).unwrap();
    let error = certificates.reload().unwrap_err();
    assert!(matches!(&error, TlsConfigError::InvalidPem { .. }), "{error}");
    assert!(is_old());

    fs::remove_file(&files.0).unwrap();
    let error = certificates.reload().unwrap_err().to_string();
    assert_eq!(error, format!("cannot read `{file}`: No such file or directory (os error 2)"));
    assert!(is_old());

    files.write(&new);
    certificates.reload().unwrap();
    assert!(!is_old());
    assert_eq!(pem::load_certificates(&files.0).unwrap(), [der(&new.0)]);
}

#[test]
fn t04_certificates_can_be_replaced_by_others() {
    let authority = Authority::new();
    let (old, new) = (authority.ecdsa(&["old.example"]), authority.ecdsa(&["new.example"]));
    let from = |it: &(String, String)| {
        ServerCertificates::from_pem(it.0.as_bytes(), it.1.as_bytes()).unwrap()
    };
    let (certificates, others) = (from(&old), from(&new));
    let server = ServerTls::builder().certificates(&certificates).build().unwrap();
    certificates.replace(&others);
    certificates.replace(&certificates.clone());
    others.replace(&from(&old));
    certificates.reload().unwrap();
    let client = authority.trusting_client();
    assert!(presented(&server, &client, "new.example") == der(&new.0));
    assert_eq!(format!("{certificates:?}"), r#"ServerCertificates(["new.example"])"#);
}

#[test]
fn t04_a_session_from_before_a_reload_is_resumed_after_it() {
    let authority = Authority::new();
    let files = Files::new("t04_resumed");
    files.write(&authority.ecdsa(&[NAME]));
    let certificates = ServerCertificates::from_files(&files.0, &files.1).unwrap();
    let config = || ServerTls::builder().certificates(&certificates).build().unwrap();
    let (server, client) = (config(), authority.trusting_client());
    assert!(!connect(&server, &client, NAME).client.events.handshake().unwrap().is_resumed);
    files.write(&authority.ecdsa(&[NAME]));
    certificates.reload().unwrap();
    assert!(connect(&server, &client, NAME).client.events.handshake().unwrap().is_resumed);
    // Another configuration knows no session of the first one.
    assert!(!connect(&config(), &client, NAME).client.events.handshake().unwrap().is_resumed);
}

#[test]
fn t04_a_name_that_has_lost_its_certificate_is_refused_though_its_session_is_known() {
    let authority = Authority::new();
    let build = |name: &str| {
        let (certificate, key) = authority.ecdsa(&[name]);
        ServerCertificates::builder()
            .pem(certificate.as_bytes(), key.as_bytes())
            .refuse_unknown_names()
            .build()
            .unwrap()
    };
    let certificates = build(NAME);
    let server = ServerTls::builder().certificates(&certificates).build().unwrap();
    let client = authority.trusting_client();
    connect(&server, &client, NAME);
    assert!(connect(&server, &client, NAME).client.events.handshake().unwrap().is_resumed);
    certificates.replace(&build("other.example"));
    let mut link = connect(&server, &client, NAME);
    let alert = rustls::Error::AlertReceived(AlertDescription::AccessDenied);
    let error = link.client.channel.read_error().unwrap();
    assert_eq!(error.find::<TlsError>(), Some(&TlsError::Handshake(alert)));
}

#[test]
fn t04_handshakes_and_reloads_on_several_threads_see_whole_sets() {
    let authority = Authority::new();
    let files = Files::new("t04_threads");
    let sets = [authority.ecdsa(&[NAME]), authority.ecdsa(&[NAME])];
    files.write(&sets[0]);
    let certificates = ServerCertificates::from_files(&files.0, &files.1).unwrap();
    let server = ServerTls::builder().certificates(&certificates).build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let found = presented(&server, &authority.trusting_client(), NAME);
                    assert!(sets.iter().any(|set| der(&set.0) == found));
                }
            });
        }
        for round in 0..200 {
            files.write(&sets[round % 2]);
            certificates.reload().unwrap();
        }
    });
}
