//! The examples `ws_echo`, `ws_chat` and `ws_client` as programs.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::certificates::Authority;
use crate::echo_server::EchoServer;
use crate::peer_program::PeerProgram;
use crate::peers::chromium_peer;
use crate::program::{Program, path_of};
use waterwheel::websocket::WebSocketOptions;

/// Starts the client with these arguments.
fn client(args: &[&str]) -> PeerProgram {
    PeerProgram::start(Command::new(path_of("ws_client")).args(args))
}

fn terminate(program: &mut Program) {
    kill_process(Pid::from_child(&program.child), Signal::TERM).unwrap();
    assert!(program.child.wait().unwrap().success());
}

#[test]
fn w08_the_client_program_gets_its_lines_back_from_the_echo_program() {
    for (server_args, client_args) in [
        (&[][..], &[][..]),
        (&["--keep-context"], &["--deflate"]),
        (&["--keep-context"], &["--keep-context"]),
    ] {
        let mut args: Vec<&dyn std::fmt::Display> = vec![&0];
        args.extend(server_args.iter().map(|arg| arg as &dyn std::fmt::Display));
        let mut server = Program::start("ws_echo", &args);
        let url = format!("ws://{}/", server.address());
        let mut client = client(&[client_args, &[&url]].concat());
        client.send("one\nGrüße, 漢字 😀\n\n".as_bytes());
        client.send(format!("{}\n", "long ".repeat(100_000)).as_bytes());
        client.send(b"last\n");
        let ended = client.finish();
        assert!(ended.stderr.starts_with("closed: 1000"), "{}", ended.stderr);
        let expected = format!("one\nGrüße, 漢字 😀\n\n{}\nlast\n", "long ".repeat(100_000));
        assert!(ended.expect_success() == expected);
        terminate(&mut server);
    }
}

#[test]
fn w05_the_echo_program_closes_its_connections_with_1001_at_sigterm() {
    let mut server = Program::start("ws_echo", &[&0]);
    let mut client = client(&[&format!("ws://{}/", server.address())]);
    client.send(b"hello\n");
    client.wait_for("hello\n");
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    client.wait_for("closed: 1001");
    assert!(server.child.wait().unwrap().success());
    assert!(client.finish().status.success());
}

#[test]
fn w08_two_clients_chat() {
    let mut server = Program::start("ws_chat", &[&0]);
    let url = format!("ws://{}/chat", server.address());
    let mut members = ["Anna", "Berta"].map(|name| {
        let mut member = client(&["--deflate", &url]);
        member.wait_for("What is your name?\n");
        member.send(format!("{name}\n").as_bytes());
        member.wait_for(&format!("* {name} is here\n"));
        member
    });
    members[0].wait_for("* Berta is here\n");
    members[0].send("Grüße\n".as_bytes());
    for member in &mut members {
        member.wait_for("Anna: Grüße\n");
    }
    let [mut anna, berta] = members;
    assert!(berta.finish().stderr.starts_with("closed: 1000"));
    anna.wait_for("* Berta has gone\n");
    anna.send(&[b"x".repeat(4097), b"\n".to_vec()].concat());
    anna.wait_for("closed: 1009");
    terminate(&mut server);
}

#[test]
fn w08_two_pages_in_chromium_chat() {
    let Some(mut browser) = chromium_peer() else { return };
    let mut server = Program::start("ws_chat", &[&0]);
    let url = format!("http://localhost:{}/", server.address().port());
    let mut browser = PeerProgram::start(browser.args(["chat", &url]));
    browser.wait_for("chatted\n");
    terminate(&mut server);
    let shown = browser.finish().expect_success();
    let lines: Vec<_> = shown.lines().filter(|line| !line.is_empty()).collect();
    let expected = [
        "chatted",
        "What is your name?",
        "* Anna is here",
        "* Berta is here",
        "Anna: Grüße, 漢字",
        "Berta: <b>hello</b>",
        "* Berta has gone",
    ];
    assert_eq!(lines[..7], expected);
    assert!(lines[7].starts_with("closed: 1001"), "{lines:?}");
}

#[test]
fn w08_the_client_program_trusts_the_certificates_of_a_file_alone() {
    let authority = Authority::new("ws_client_program");
    let identity = authority.identity("server", &rcgen::PKCS_ECDSA_P256_SHA256, &["127.0.0.1"]);
    let tls = identity.serve().build().unwrap();
    let server = EchoServer::start_tls(&WebSocketOptions::default(), tls);
    let url = format!("wss://{}/", server.address());
    let root = authority.root.display().to_string();
    let mut trusting = client(&["--ca", &root, "--protocol", "v1", "--protocol", "v2", &url]);
    trusting.send(b"secret\n");
    assert_eq!(trusting.finish().expect_success(), "secret\n");
    assert_eq!(server.notes(1), ["open v2", "closed 1000"]);
    let other = Authority::new("ws_client_program_other").root.display().to_string();
    let refused = client(&["--ca", &other, &url]).finish();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("no TLS connection to 127.0.0.1:"), "{}", refused.stderr);
}

#[test]
fn w08_the_client_program_says_why_there_is_no_connection() {
    let server = Program::start("json_api", &[&0]);
    let refused = client(&[&format!("ws://{}/", server.address())]).finish();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("404"), "{}", refused.stderr);
    let wrong = client(&["http://localhost/"]).finish();
    assert!(wrong.stderr.contains("neither ws nor wss"), "{}", wrong.stderr);
}
