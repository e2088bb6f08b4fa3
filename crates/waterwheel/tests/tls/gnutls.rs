//! gnutls-cli: an implementation that shares no code with openssl.

use std::process::Command;

use waterwheel::tls::rustls::ProtocolVersion;

use crate::support::certificates::Authority;
use crate::support::endpoints::{Server, Service};
use crate::support::peer_program::PeerProgram;
use crate::support::{NAME, VERSIONS};

fn gnutls_cli(server: &Server, authority: &Authority, version: ProtocolVersion) -> Command {
    let only = match version {
        ProtocolVersion::TLSv1_2 => "NORMAL:-VERS-ALL:+VERS-TLS1.2",
        _ => "NORMAL:-VERS-ALL:+VERS-TLS1.3",
    };
    let mut command = Command::new("gnutls-cli");
    command.args(["--priority", only, "--sni-hostname", NAME, "--verify-hostname", NAME]);
    command.arg("--x509cafile").arg(&authority.root);
    command.args(["--port", &server.port(), "127.0.0.1"]);
    command
}

#[test]
fn t09_gnutls_cli_talks_and_closes_in_order() {
    let authority = Authority::new("gnutls");
    let config = authority.server().serve().alpn(["echo"]).build().unwrap();
    let server = Server::start(config, Service::Echo);
    for version in VERSIONS {
        let mut command = gnutls_cli(&server, &authority, version);
        let mut client = PeerProgram::start(command.args(["--alpn", "echo"]));
        client.send(b"hello, wheel\n");
        client.wait_for("hello, wheel\n");
        let result = client.finish();
        assert!(result.status.success(), "{}", result.text());
        let handshake = server.observer.handshake();
        assert_eq!(handshake.version, Some(version));
        assert_eq!(handshake.server_name.as_deref(), Some(NAME));
        assert_eq!(handshake.alpn.as_deref(), Some(&b"echo"[..]));
        server.observer.expect_peer_closed();
    }
}

/// Connects, ends the connection, connects again and says hello. Returns whether the second session was resumed.
fn connects_again_and_resumes(
    server: &Server,
    authority: &Authority,
    version: ProtocolVersion,
) -> bool {
    let mut command = gnutls_cli(server, authority, version);
    let mut client = PeerProgram::start(command.arg("--resume"));
    client.wait_for("- Simple Client Mode");
    client.send(b"hello, wheel\n");
    client.wait_for("hello, wheel\n");
    let is_resumed = client.finish().text().contains("This is a resumed session");
    assert!(!server.observer.handshake().is_resumed);
    server.observer.expect_peer_closed();
    assert_eq!(server.observer.handshake().is_resumed, is_resumed);
    server.observer.expect_peer_closed();
    is_resumed
}

#[test]
fn t07_gnutls_cli_resumes_its_session() {
    let authority = Authority::new("gnutls_resumes");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    for version in VERSIONS {
        // In TLS 1.3 it waits 60 ms for a ticket: on a busy machine that may be too short.
        let mut attempts = 0..50;
        let is_resumed = attempts.any(|_| connects_again_and_resumes(&server, &authority, version));
        assert!(is_resumed, "{version:?}");
    }
}

#[test]
fn t09_gnutls_cli_updates_keys() {
    let authority = Authority::new("gnutls_keys");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    let mut command = gnutls_cli(&server, &authority, ProtocolVersion::TLSv1_3);
    let mut client = PeerProgram::start(command.arg("--inline-commands"));
    for round in 0..3 {
        let line = format!("hello, round {round}\n");
        client.send(line.as_bytes());
        client.wait_for(&line);
        client.send(b"^rekey^\n");
        client.wait_for("- Rekey was completed");
    }
    client.send(b"the end\n");
    client.wait_for("the end\n");
    client.finish();
    server.observer.handshake();
    server.observer.expect_peer_closed();
}
