//! Keys that are changed in the middle of a connection: key updates of TLS 1.3, which go on, and renegotiation of
//! TLS 1.2, which is refused.
//!
//! rustls answers a request to renegotiate with the warning no_renegotiation and goes on; openssl, which has asked,
//! then gives the connection up with a fatal alert.

use waterwheel::tls::TlsError;
use waterwheel::tls::rustls::{AlertDescription, Error, ProtocolVersion};

use super::{SServer, s_client};
use crate::support::certificates::Authority;
use crate::support::endpoints::{Client, Server, Service, one_loop};
use crate::support::peer_program::PeerProgram;

#[test]
fn t09_openssl_s_client_updates_keys_and_asks_for_updates() {
    let authority = Authority::new("s_client_key_update");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    let mut command = s_client(&server, &authority, ProtocolVersion::TLSv1_3);
    let mut client = PeerProgram::start(command.arg("-msg"));
    server.observer.handshake();
    for round in 0..5 {
        let echo = format!("echo number {round}\n");
        client.send(echo.as_bytes());
        client.wait_for(&echo);
        client.send(b"k\n");
        client.wait_for("KEYUPDATE");
        let echo = format!("echo after k, number {round}\n");
        client.send(echo.as_bytes());
        client.wait_for(&echo);
        client.send(b"K\n");
        client.wait_for("KEYUPDATE");
    }
    client.send(b"the end\n");
    client.wait_for("the end\n");
    client.send(b"Q\n");
    let text = client.finish().expect_success();
    let of_server =
        text.lines().filter(|line| line.starts_with("<<<") && line.contains("KeyUpdate"));
    assert_eq!(of_server.count(), 5, "one for each that was asked for: {text}");
    server.observer.expect_peer_closed();
}

#[test]
fn t09_openssl_s_server_updates_keys_and_asks_for_updates() {
    let authority = Authority::new("s_server_key_update");
    let mut server = SServer::start(&authority.server(), &["-tls1_3", "-msg", "-naccept", "1"]);
    let group = one_loop();
    let config = authority.trusting_client().build().unwrap();
    let client = Client::connect(&group, server.address, &config);
    client.observer.handshake();
    for round in 0..5 {
        for (command, name) in [("k\n", "plain"), ("K\n", "asking")] {
            let line = format!("from the client, {name} {round}\n");
            client.send(line.clone());
            server.program.wait_for(&line);
            server.program.send(command.as_bytes());
            server.program.wait_for(", KeyUpdate");
            let line = format!("from the server, {name} {round}\n");
            server.program.send(line.as_bytes());
            assert_eq!(client.observer.read(line.len()), line.as_bytes());
        }
    }
    client.send("the end\n");
    server.program.wait_for("the end\n");
    client.close();
    let text = server.program.finish().text();
    let of_client =
        text.lines().filter(|line| line.starts_with("<<<") && line.contains("KeyUpdate"));
    assert_eq!(of_client.count(), 5, "one for each that was asked for: {text}");
}

#[test]
fn t09_renegotiation_of_openssl_s_client_is_refused() {
    let authority = Authority::new("s_client_renegotiation");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    let mut command = s_client(&server, &authority, ProtocolVersion::TLSv1_2);
    let mut client = PeerProgram::start(&mut command);
    server.observer.handshake();
    client.send(b"before it\n");
    client.wait_for("before it\n");
    client.send(b"R\n");
    client.wait_for("RENEGOTIATING");
    client.wait_for("no renegotiation");
    let refused = Error::AlertReceived(AlertDescription::HandshakeFailure);
    assert_eq!(server.observer.failure(), TlsError::Protocol(refused));
}

#[test]
fn t09_renegotiation_of_openssl_s_server_is_refused() {
    let authority = Authority::new("s_server_renegotiation");
    let mut server = SServer::start(&authority.server(), &["-tls1_2"]);
    let group = one_loop();
    let config = authority.trusting_client().build().unwrap();
    let client = Client::connect(&group, server.address, &config);
    client.observer.handshake();
    client.send("before it\n");
    server.program.wait_for("before it\n");
    server.program.send(b"r\n");
    server.program.wait_for("no renegotiation");
    let refused = Error::AlertReceived(AlertDescription::HandshakeFailure);
    assert_eq!(client.observer.failure(), TlsError::Protocol(refused));
}
