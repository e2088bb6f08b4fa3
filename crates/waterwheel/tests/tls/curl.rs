//! curl: https with TLS 1.2 and 1.3, application protocols, certificates of clients, resumption, refusals.

use std::process::Command;

use waterwheel::tls::rustls::{AlertDescription, Error, ProtocolVersion};
use waterwheel::tls::{ClientCertificates, pem};

use crate::support::certificates::Authority;
use crate::support::endpoints::{Seen, Server, Service};
use crate::support::peer_program::{PeerProgram, ProgramResult};
use crate::support::{NAME, VERSIONS};

/// The status of a curl that does not accept the server's certificate.
const CERTIFICATE_REFUSED: Option<i32> = Some(60);

/// Returns the option that allows no version but this one.
fn only(version: ProtocolVersion) -> [&'static str; 3] {
    match version {
        ProtocolVersion::TLSv1_2 => ["--tlsv1.2", "--tls-max", "1.2"],
        _ => ["--tlsv1.3", "--tls-max", "1.3"],
    }
}

/// Returns a curl that trusts this authority and finds the server under [`NAME`] and under other.example.
fn curl(server: &Server, authority: &Authority) -> Command {
    let port = server.port();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--noproxy", "*", "--cacert"]).arg(&authority.root);
    for name in [NAME, "other.example"] {
        command.args(["--resolve", &format!("{name}:{port}:127.0.0.1")]);
    }
    command
}

fn url(server: &Server, name: &str) -> String {
    format!("https://{name}:{}/", server.port())
}

fn get(mut curl: Command, url: &str) -> ProgramResult {
    PeerProgram::run(curl.arg(url))
}

#[test]
fn t09_curl_gets_a_page_in_both_versions() {
    let authority = Authority::new("curl");
    let config = authority.server().serve().alpn(["h2", "http/1.1"]).build().unwrap();
    let server = Server::start(config, Service::Http);
    for version in VERSIONS {
        for (option, alpn) in [("--http1.1", "http/1.1"), ("--no-alpn", "-"), ("--http2", "h2")] {
            let mut command = curl(&server, &authority);
            command.args(only(version)).arg(option);
            let result = get(command, &url(&server, NAME));
            let handshake = server.observer.handshake();
            assert_eq!(handshake.version, Some(version));
            assert_eq!(handshake.server_name.as_deref(), Some(NAME));
            if alpn == "h2" {
                // The service speaks HTTP/1.1 only: curl has understood the choice, and is disappointed.
                assert_eq!(handshake.alpn.as_deref(), Some(&b"h2"[..]));
                assert!(!result.status.success(), "{result:?}");
                while !matches!(server.observer.next(), Seen::Inactive) {}
                continue;
            }
            let version = version.as_str().unwrap();
            assert_eq!(result.expect_success(), format!("{version} {alpn} {NAME} 0 new\n"));
            server.observer.expect_end();
        }
    }
}

#[test]
fn t07_curl_resumes_its_session() {
    let authority = Authority::new("curl_resumes");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Http);
    for version in VERSIONS {
        let mut command = curl(&server, &authority);
        command.args(only(version)).arg(url(&server, NAME)).arg(url(&server, NAME));
        let page = get(command, &url(&server, NAME)).expect_success();
        let resumed: Vec<_> = page.lines().map(|line| line.ends_with("resumed")).collect();
        assert_eq!(resumed, [false, true, true], "{page}");
    }
}

#[test]
fn t09_curl_refuses_a_wrong_name_and_an_unknown_root() {
    let authority = Authority::new("curl_refuses");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Http);
    let received = |alert| Error::AlertReceived(alert);
    for version in VERSIONS {
        let mut command = curl(&server, &authority);
        command.args(only(version));
        let result = get(command, &url(&server, "other.example"));
        assert_eq!(result.status.code(), CERTIFICATE_REFUSED, "{result:?}");
        // openssl has accepted the chain, and curl the handshake, before curl compares the names: the connection ends.
        while !matches!(server.observer.next(), Seen::Inactive) {}

        let stranger = Authority::new("curl_stranger");
        let mut command = curl(&server, &stranger);
        command.args(only(version));
        let result = get(command, &url(&server, NAME));
        assert_eq!(result.status.code(), CERTIFICATE_REFUSED, "{result:?}");
        let error = server.observer.handshake_failure();
        assert_eq!(error, received(AlertDescription::UnknownCA), "{version:?}");
    }
}

#[test]
fn t04_curl_presents_a_certificate_of_a_client() {
    let authority = Authority::new("curl_client");
    let clients = ClientCertificates::required_from_file(&authority.root).unwrap();
    let config = authority.server().serve().client_certificates(clients).build().unwrap();
    let server = Server::start(config, Service::Http);
    let client = authority.client();
    for version in VERSIONS {
        let mut command = curl(&server, &authority);
        command.args(only(version)).args(client.options("--cert", "--key"));
        get(command, &url(&server, NAME)).expect_success();
        let handshake = server.observer.handshake();
        assert_eq!(handshake.version, Some(version));
        let presented = handshake.peer_certificates.first();
        assert_eq!(presented, pem::load_certificates(&client.chain).unwrap().first());
        server.observer.expect_end();

        let mut command = curl(&server, &authority);
        command.args(only(version));
        let result = get(command, &url(&server, NAME));
        assert!(!result.status.success(), "{result:?}");
        assert!(result.stderr.contains("alert certificate required"), "{result:?}");
        assert_eq!(server.observer.handshake_failure(), Error::NoCertificatesPresented);
    }
}
