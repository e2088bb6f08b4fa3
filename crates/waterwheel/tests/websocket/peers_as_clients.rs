//! Clients that others wrote at a server of ours: texts, bytes, a mebibyte, fragments, pings, closes, compression, TLS.

use std::process::Command;

use waterwheel::websocket::{DeflateOptions, WebSocketOptions};

use crate::NAME;
use crate::certificates::Authority;
use crate::echo_server::EchoServer;
use crate::peer_program::PeerProgram;
use crate::peers::{chromium_peer, netty_peer, node_peer, python_peer};

/// Returns options that pass pings on, and compress if the client offers it.
fn options(keeps_context: bool) -> WebSocketOptions {
    let deflate = DeflateOptions::builder()
        .context_takeover(keeps_context)
        .peer_context_takeover(keeps_context)
        .build();
    WebSocketOptions::builder().pass_control(true).deflate(deflate.unwrap()).build().unwrap()
}

/// Runs a client at a server without context takeover and at one with it. Checks what each server sees, and returns what
/// the client prints each time; `None` if it is not installed.
fn run_client(peer: impl Fn() -> Option<Command>, seen: &[String]) -> Option<[String; 2]> {
    let mut printed = [false, true].map(|keeps_context| {
        let mut command = peer()?;
        let server = EchoServer::start(&options(keeps_context));
        let output = PeerProgram::run(command.arg("client").arg(server.url("/"))).expect_success();
        let closes = seen.iter().filter(|note| note.starts_with("closed")).count();
        assert_eq!(server.notes(closes), seen);
        Some(output)
    });
    Some([printed[0].take()?, printed[1].take()?])
}

/// Returns what the server sees of a client that connects twice without compression, and twice with it.
fn two_visits(pings: &[&str]) -> Vec<String> {
    ["open v2", "open v2, compressed"].iter().flat_map(|open| one_visit(open, pings)).collect()
}

/// Returns what the server sees of a connection that the client closes, and of one that the server closes.
fn one_visit(open: &str, pings: &[&str]) -> Vec<String> {
    let mut notes = vec![open];
    notes.extend(pings);
    notes.extend(["closed 4001 good bye", open, "closed 4002 enough"]);
    notes.iter().map(ToString::to_string).collect()
}

const PING_AND_PONG: [&str; 2] = ["ping payload", "pong are you there"];

#[test]
fn w08_a_client_of_python_websockets() {
    let printed = run_client(python_peer, &two_visits(&PING_AND_PONG));
    let expected = "None v2 4001 \n4002 enough\ndeflate v2 4001 \n4002 enough\n";
    assert!(printed.is_none_or(|printed| printed == [expected; 2]));
}

#[test]
fn w08_a_client_of_node_ws() {
    let Some(printed) = run_client(node_peer, &two_visits(&PING_AND_PONG)) else { return };
    let expected = "false  v2 4001 \n4002 enough\ntrue permessage-deflate v2 4001 \n4002 enough\n";
    assert_eq!(printed, [expected; 2]);
}

/// Netty's client refuses an answer with parameters that it has not asked for, unless it is told to allow them.
#[test]
fn w08_a_netty_client() {
    for (keeps_context, mode) in [(false, "allow-no-context-takeover"), (true, "default")] {
        let Some(mut command) = netty_peer() else { return };
        let server = EchoServer::start(&options(keeps_context));
        let command = command.arg("client").arg(server.url("/")).arg(mode);
        let printed = PeerProgram::run(command).expect_success();
        let visit = |compressed| format!("{compressed} v2 close 4001 \nclose 4002 enough\n");
        assert_eq!(printed, visit(false) + &visit(true));
        assert_eq!(server.notes(4), two_visits(&PING_AND_PONG));
    }
}

#[test]
fn w08_a_page_in_chromium() {
    let seen = one_visit("open v2, compressed", &PING_AND_PONG[1..]);
    let Some(printed) = run_client(chromium_peer, &seen) else { return };
    let expected = "behind the pong; permessage-deflate; v2\n4001  true\n4002 enough true\n";
    assert_eq!(printed, [expected; 2]);
}

#[test]
fn w08_clients_of_python_and_node_over_tls() {
    let authority = Authority::new("websocket_server");
    let identity = authority.identity("server", &rcgen::PKCS_ECDSA_P256_SHA256, &[NAME]);
    for peer in [python_peer, node_peer] {
        let Some(mut command) = peer() else { continue };
        let tls = identity.serve().build().unwrap();
        let server = EchoServer::start_tls(&options(true), tls);
        let url = format!("wss://{NAME}:{}/", server.address().port());
        PeerProgram::run(command.arg("client").arg(url).arg(&authority.root)).expect_success();
        assert_eq!(server.notes(4), two_visits(&PING_AND_PONG));
    }
}
