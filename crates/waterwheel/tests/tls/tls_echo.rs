//! The example `tls_echo`, as a program.

use std::io::{BufRead, Read, Write};
use std::process::Command;

use crate::program::Program;
use crate::support::NAME;
use crate::support::certificates::Authority;
use crate::support::peer_program::PeerProgram;

#[test]
fn t09_the_example_tls_echo_answers_openssl_and_refuses_plain_text() {
    let authority = Authority::new("tls_echo");
    let identity = authority.server();
    let paths: [&dyn std::fmt::Display; 3] =
        [&0, &identity.chain.display(), &identity.key.display()];
    let mut example = Program::start("tls_echo", &paths);
    let mut plain = example.connect();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut alert = Vec::new();
    plain.read_to_end(&mut alert).unwrap();
    assert_eq!(alert.first(), Some(&21), "an alert");
    let mut line = String::new();
    example.stdout.read_line(&mut line).unwrap();
    assert!(line.contains("the TLS handshake failed"), "{line}");

    let mut command = Command::new("openssl");
    command.args(["s_client", "-verify_return_error", "-CAfile"]).arg(&authority.root);
    command.args(["-servername", NAME, "-connect", &example.listen_address]);
    let mut client = PeerProgram::start(&mut command);
    client.send(b"hello, wheel\n");
    client.wait_for("hello, wheel\n");
    client.finish().expect_success();
    line.clear();
    example.stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("handshake: Some(TLSv1_3)"), "{line}");
}
