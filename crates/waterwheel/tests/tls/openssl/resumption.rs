//! T07 with openssl: sessions are resumed in both versions, whichever loop has the connection.

use super::{SServer, only, s_client};
use crate::support::VERSIONS;
use crate::support::certificates::Authority;
use crate::support::endpoints::{Client, Server, Service, one_loop};
use crate::support::peer_program::PeerProgram;

#[test]
fn t07_openssl_s_client_resumes_its_session_on_another_loop() {
    let authority = Authority::new("s_client_resumes");
    let server = Server::on_two_loops(authority.server().serve().build().unwrap(), Service::Echo);
    let session = authority.file("session.pem");
    for version in VERSIONS {
        for number in 0..4 {
            let mut command = s_client(&server, &authority, version);
            command.args(["-quiet", "-sess_out"]).arg(&session);
            if number > 0 {
                command.arg("-sess_in").arg(&session);
            }
            let mut client = PeerProgram::start(&mut command);
            client.send_in_background(b"bye\n".into());
            assert_eq!(client.finish().expect_success(), "bye\n");
            let handshake = server.observer.handshake();
            assert_eq!(handshake.version, Some(version));
            assert_eq!(handshake.is_resumed, number > 0, "{version:?}, connection {number}");
            server.observer.expect_end();
        }
    }
}

#[test]
fn t07_a_client_resumes_its_session_at_openssl_s_server() {
    let authority = Authority::new("s_server_resumes");
    let identity = authority.server();
    let group = one_loop();
    for version in VERSIONS {
        // Without tickets, TLS 1.2 has session ids, and TLS 1.3 tickets that refer to the server's memory.
        for tickets in [&[][..], &["-no_ticket"]] {
            let options = [&["-rev", only(version)], tickets].concat();
            let server = SServer::start(&identity, &options);
            let config = authority.trusting_client().build().unwrap();
            for number in 0..3 {
                let client = Client::connect(&group, server.address, &config);
                client.send("wheel\n");
                let is_resumed = client.observer.handshake().is_resumed;
                assert_eq!(is_resumed, number > 0, "{version:?} {tickets:?}, connection {number}");
                assert_eq!(client.observer.read(6), b"leehw\n");
                client.close();
            }
        }
    }
}
