//! T02 with openssl: close_notify in both directions, and streams that are cut off.

use waterwheel::tls::{TlsError, TlsOptions};

use super::{SServer, only, s_client};
use crate::support::VERSIONS;
use crate::support::certificates::Authority;
use crate::support::endpoints::{Client, Server, Service, one_loop};
use crate::support::peer_program::PeerProgram;

#[test]
fn t02_close_notify_of_openssl_s_client_is_answered() {
    let authority = Authority::new("s_client_closes");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    for version in VERSIONS {
        let mut command = s_client(&server, &authority, version);
        let mut client = PeerProgram::start(&mut command);
        client.send(b"hello, wheel\n");
        client.wait_for("hello, wheel\n");
        client.send(b"Q\n");
        client.finish().expect_success();
        server.observer.handshake();
        server.observer.expect_peer_closed();
    }
}

#[test]
fn t02_openssl_s_client_sees_close_notify_of_the_server() {
    let authority = Authority::new("server_closes");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    for version in VERSIONS {
        let mut command = s_client(&server, &authority, version);
        let mut client = PeerProgram::start(command.args(["-ign_eof", "-msg"]));
        client.send(b"bye\n");
        let text = client.finish().expect_success();
        assert!(text.contains("\nclosed\n"), "{text}");
        let mut alerts =
            text.lines().filter(|line| line.starts_with("<<<") && line.contains("Alert"));
        assert!(alerts.next().is_some_and(|line| line.ends_with("warning close_notify")), "{text}");
        server.observer.handshake();
        server.observer.expect_end();
    }
}

#[test]
fn t02_openssl_s_client_that_is_killed_truncates_the_stream() {
    let authority = Authority::new("s_client_killed");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    for version in VERSIONS {
        let mut client = PeerProgram::start(&mut s_client(&server, &authority, version));
        client.send(b"hello, wheel\n");
        client.wait_for("hello, wheel\n");
        client.kill();
        server.observer.handshake();
        assert_eq!(server.observer.failure(), TlsError::Truncated, "{version:?}");
    }
}

#[test]
fn t02_close_notify_of_openssl_s_server_ends_the_clients_stream() {
    let authority = Authority::new("s_server_closes");
    let (group, config) = (one_loop(), authority.trusting_client().build().unwrap());
    for version in VERSIONS {
        let server = SServer::start(&authority.server(), &["-rev", only(version)]);
        let client = Client::connect(&group, server.address, &config);
        client.send("wheel\nCLOSE\n");
        client.observer.handshake();
        assert_eq!(client.observer.read(6), b"leehw\n");
        client.observer.expect_peer_closed();
    }
}

#[test]
fn t02_openssl_s_server_that_is_killed_truncates_the_stream() {
    let authority = Authority::new("s_server_killed");
    let (group, config) = (one_loop(), authority.trusting_client().build().unwrap());
    for version in VERSIONS {
        let mut server = SServer::start(&authority.server(), &[only(version)]);
        let client = Client::connect(&group, server.address, &config);
        client.observer.handshake();
        client.send("hello, wheel\n");
        server.program.wait_for("hello, wheel\n");
        server.program.kill();
        assert_eq!(client.observer.failure(), TlsError::Truncated, "{version:?}");
    }
}

/// With `await_close_notify` the close is over when `s_server` has answered.
#[test]
fn t02_openssl_s_server_answers_close_notify_of_the_client() {
    let authority = Authority::new("client_closes");
    let (group, config) = (one_loop(), authority.trusting_client().build().unwrap());
    let options = TlsOptions::builder().await_close_notify(true).build().unwrap();
    for version in VERSIONS {
        let options_of_server = [only(version), "-msg", "-naccept", "1"];
        let server = SServer::start(&authority.server(), &options_of_server);
        let client = Client::with_options(&group, server.address, &config, options);
        client.observer.handshake();
        client.channel.close().join().unwrap();
        client.observer.expect_peer_closed();
        let text = server.program.finish().expect_success();
        let mut alerts =
            text.lines().filter(|line| line.starts_with("<<<") && line.contains("Alert"));
        assert!(alerts.next().is_some_and(|line| line.ends_with("warning close_notify")), "{text}");
    }
}
