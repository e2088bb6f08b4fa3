//! Handshakes that cannot succeed: each side is told why.

use waterwheel::tls::rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use super::{SServer, only, s_client};
use crate::support::certificates::{Authority, Identity};
use crate::support::endpoints::{Client, Server, Service, one_loop};
use crate::support::peer_program::PeerProgram;
use crate::support::{NAME, VERSIONS};

/// rustls misses an extension before it looks at the version: the alert is handshake_failure, and not protocol_version.
#[test]
fn t09_openssl_s_client_of_an_old_version_is_refused() {
    let authority = Authority::new("old_clients");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    for old in ["-tls1", "-tls1_1"] {
        let mut command = std::process::Command::new("openssl");
        // Unless the level is lowered, openssl refuses itself.
        command.args(["s_client", old, "-cipher", "ALL@SECLEVEL=0", "-servername", NAME]);
        command.args(["-connect", &server.address.to_string()]);
        let result = PeerProgram::run(&mut command);
        assert!(result.stderr.contains("alert handshake failure"), "{old}: {}", result.stderr);
        let expected = PeerIncompatible::SignatureAlgorithmsExtensionRequired;
        let error = server.observer.handshake_failure();
        assert_eq!(error, Error::PeerIncompatible(expected), "{old}");
    }
}

#[test]
fn t09_openssl_s_client_without_anything_in_common_is_refused_with_the_reason() {
    let authority = Authority::new("nothing_in_common");
    let config = authority.server().serve().alpn(["echo"]).build().unwrap();
    let server = Server::start(config, Service::Echo);
    let no_suite = Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon);
    let no_group = Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon);
    let [tls12, tls13] = VERSIONS;
    for (version, options, alert, expected) in [
        (tls12, ["-cipher", "ECDHE-ECDSA-AES128-SHA"], "handshake failure", no_suite.clone()),
        (tls13, ["-ciphersuites", "TLS_AES_128_CCM_SHA256"], "handshake failure", no_suite),
        (tls12, ["-groups", "P-521"], "handshake failure", no_group.clone()),
        (tls13, ["-groups", "P-521"], "handshake failure", no_group),
        (tls12, ["-alpn", "other"], "no application protocol", Error::NoApplicationProtocol),
        (tls13, ["-alpn", "other"], "no application protocol", Error::NoApplicationProtocol),
    ] {
        let result = PeerProgram::run(s_client(&server, &authority, version).args(options));
        let error = server.observer.handshake_failure();
        assert_eq!(error, expected, "{version:?} {options:?}");
        assert!(!result.status.success(), "{version:?} {options:?}");
        let alert = format!("alert {alert}");
        assert!(result.stderr.contains(&alert), "{version:?} {options:?}: {}", result.stderr);
    }
}

/// Connects to an `s_server` that ends after this connection. Returns the client's error and the server's output.
fn connect_in_vain(
    authority: &Authority,
    identity: &Identity,
    options: &[&str],
    alpn: &[&str],
) -> (Error, String) {
    let server = SServer::start(identity, &[options, &["-naccept", "1"]].concat());
    let config = authority.trusting_client().alpn(alpn.iter().copied()).build().unwrap();
    let group = one_loop();
    let client = Client::connect(&group, server.address, &config);
    let error = client.observer.handshake_failure();
    (error, server.program.finish().text())
}

#[test]
fn t09_a_client_without_anything_in_common_with_s_server_learns_the_alert() {
    let authority = Authority::new("client_in_vain");
    let identity = authority.server();
    for (options, alert) in [
        (&["-tls1_1", "-cipher", "ALL@SECLEVEL=0"][..], AlertDescription::ProtocolVersion),
        (&["-tls1_2", "-cipher", "AES128-SHA"], AlertDescription::HandshakeFailure),
        (
            &["-tls1_3", "-ciphersuites", "TLS_AES_128_CCM_SHA256"],
            AlertDescription::HandshakeFailure,
        ),
        (&["-tls1_3", "-groups", "P-521"], AlertDescription::HandshakeFailure),
        (&["-tls1_2", "-alpn", "other"], AlertDescription::NoApplicationProtocol),
        (&["-tls1_3", "-alpn", "other"], AlertDescription::NoApplicationProtocol),
    ] {
        let (error, log) = connect_in_vain(&authority, &identity, options, &["echo"]);
        assert_eq!(error, Error::AlertReceived(alert), "{options:?}: {log}");
    }
}

#[test]
fn t09_a_client_refuses_invalid_certificates_of_s_server_with_the_right_alert() {
    let authority = Authority::new("bad_certificates");
    let intermediate = authority.intermediate();
    let other_name =
        authority.identity("other_name", &rcgen::PKCS_ECDSA_P256_SHA256, &["other.example"]);
    // `-cert` takes the first certificate of the file: the intermediate is missing.
    let incomplete = intermediate.server();
    let unknown = Authority::new("bad_certificates_unknown").server();
    for version in VERSIONS {
        for (identity, is_expected, alert) in [
            (
                &other_name,
                (|error| matches!(error, CertificateError::NotValidForNameContext { .. }))
                    as fn(&CertificateError) -> bool,
                "alert bad certificate",
            ),
            (
                &authority.expired_server(),
                |error| matches!(error, CertificateError::ExpiredContext { .. }),
                "alert certificate expired",
            ),
            (&incomplete, |error| *error == CertificateError::UnknownIssuer, "alert unknown ca"),
            (&unknown, |error| *error == CertificateError::UnknownIssuer, "alert unknown ca"),
        ] {
            let (error, log) = connect_in_vain(&authority, identity, &[only(version)], &[]);
            let Error::InvalidCertificate(reason) = &error else { panic!("{error}: {log}") };
            assert!(is_expected(reason), "{version:?}: {error}");
            assert!(log.contains(alert), "{version:?} {error}: {log}");
        }
    }
}
