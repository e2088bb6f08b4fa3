//! One port: the first bytes of a connection tell its protocol.

use std::io::{Read, Write};
use std::net::Ipv4Addr;

use super::support::http::{self, HttpClient};
use super::support::lines::{HELLO, LineClient, connect, connect_from};
use super::support::process::{Process, program};

#[test]
fn k13_a_silent_client_is_greeted_and_speaks_lines() {
    let gateway = Process::start(&["--detection-silence", "10ms"]);
    let mut client = LineClient::connect_silently(gateway.address);
    client.expect(HELLO);
    client.ask("PING", "PONG");
}

#[test]
fn k13_without_the_rule_of_silence_the_first_byte_may_be_late() {
    let gateway = Process::start(&["--detection-silence", "off"]);
    let mut silent = connect(gateway.address);
    silent.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    assert!(silent.read(&mut [0]).is_err(), "no greeting");
    silent.set_read_timeout(Some(super::support::LIMIT)).unwrap();
    silent.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    silent.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.") && answer.ends_with("ok\n"), "{answer}");
}

#[test]
fn k13_requests_and_lines_are_told_apart_byte_by_byte() {
    let gateway = Process::start(&[]);
    let mut request = HttpClient::connect(gateway.address);
    for byte in b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n" {
        request.send(&[*byte]);
    }
    assert_eq!(request.read_answer().unwrap().status, 200);
    assert_eq!(request.get("/readyz").body, "ok\n", "the connection stays");
    let mut lines = LineClient::connect_silently(gateway.address);
    for byte in b"USER ann\n" {
        lines.send([*byte]);
    }
    lines.expect(HELLO);
    lines.expect("OK hello ann");
}

/// A request that is slower than the time after which a silent client is greeted.
#[test]
fn k13_a_request_line_may_take_longer_than_the_silence() {
    let gateway = Process::start(&["--detection-silence", "1s"]);
    for _ in 0..2 {
        let mut request = HttpClient::connect(gateway.address);
        request.send(b"GET /hea");
        // The answer to another client takes longer than the silence.
        LineClient::connect_silently(gateway.address).expect(HELLO);
        request.send(b"lthz HTTP/1.1\r\nHost: gateway\r\n\r\n");
        assert_eq!(request.read_answer().unwrap().status, 200);
    }
}

#[test]
fn k13_garbage_is_answered_in_lines_and_harms_nobody() {
    let gateway = Process::start(&[]);
    let mut other = LineClient::named(gateway.address, "other");
    let mut client = LineClient::connect_silently(gateway.address);
    client.send(b"\x00\xff\xfe garbage\nget / http/1.1\n");
    client.expect(HELLO);
    client.expect_begin("ERR malformed ");
    client.expect_begin("ERR unknown_command ");
    client.send([b'x'; 100_000]);
    client.send(b"\nPING\n");
    client.expect_begin("ERR message_too_large ");
    client.expect("PONG");
    other.ask("PING", "PONG");
}

#[test]
fn k13_http_2_is_refused_in_words_that_its_client_understands() {
    let gateway = Process::start(&[]);
    let mut client = connect(gateway.address);
    client
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 505 "), "{answer}");
}

#[test]
fn k13_a_request_line_beyond_the_limit_is_answered_by_http() {
    let gateway = Process::start(&["--http-head-bytes", "1KiB"]);
    let answer = http::get(gateway.address, &format!("/{}", "a".repeat(4096)));
    assert_eq!(answer.status, 414);
}

#[test]
fn k04_a_trusted_proxy_names_the_client_and_others_cannot() {
    // The guard of addresses counts the proxy as nobody, and the limit of clients the address in the header.
    let args = ["--proxy-trusted", "127.0.0.9/32", "--clients-per-address", "1", "--open"];
    let gateway = Process::start(&args);
    let through_proxy = |header: &[u8]| {
        let socket = connect_from(Ipv4Addr::new(127, 0, 0, 9), gateway.address);
        let mut client = LineClient::of_stream(socket);
        client.send(header);
        client
    };
    let mut first = through_proxy(b"PROXY TCP4 192.0.2.1 192.0.2.9 1000 443\r\nPING\n");
    first.expect(HELLO);
    first.expect("PONG");
    let mut second = through_proxy(b"PROXY TCP4 192.0.2.1 192.0.2.9 1001 443\r\nPING\n");
    second.expect_begin("BYE the limit of connections of this address");
    let mut version_2 = Vec::from(*b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c");
    version_2.extend([192, 0, 2, 2, 192, 0, 2, 9, 3, 232, 1, 187]);
    version_2.extend(b"GET /healthz HTTP/1.0\r\n\r\n");
    let mut third = through_proxy(&version_2);
    third.expect_begin("HTTP/1.");
    let mut without = through_proxy(b"PING\n");
    without.expect_end();
    // From elsewhere the header is a line that nobody understands.
    let mut stranger = LineClient::connect_silently(gateway.address);
    stranger.say("PROXY TCP4 192.0.2.1 192.0.2.9 1000 443");
    stranger.expect(HELLO);
    stranger.expect_begin("ERR unknown_command ");
}

/// A page of a domain that leads to this machine is a page of the gateway's host, as far as browsers know.
#[test]
fn g03_an_open_gateway_takes_no_requests_for_the_hosts_of_strangers() {
    let status = |gateway: &Process, request: &str| {
        let mut client = HttpClient::connect(gateway.address);
        client.send(format!("{request}\r\n\r\n").as_bytes());
        client.read_answer().unwrap().status
    };
    const FOREIGN: &str = "Host: evil.example:7000\r\nOrigin: http://evil.example:7000";
    let publish = "POST /topics/news HTTP/1.1\r\nContent-Length: 0\r\n";
    let open = Process::start(&[]);
    assert_eq!(status(&open, &format!("{publish}{FOREIGN}")), 403);
    assert_eq!(status(&open, &format!("GET / HTTP/1.1\r\n{FOREIGN}")), 403);
    assert_eq!(status(&open, &format!("GET /readyz HTTP/1.1\r\n{FOREIGN}")), 200);
    let own = "Host: localhost:7000\r\nOrigin: http://localhost:7000";
    assert_eq!(status(&open, &format!("{publish}{own}")), 200);
    let listing = Process::start(&["--hosts-allowed", "evil.example"]);
    assert_eq!(status(&listing, &format!("{publish}{FOREIGN}")), 200);
    // With keys, a name proves nothing and opens nothing.
    let mut command = program();
    command.env("WATERWHEEL_ADMIN_KEY", "0123456789abcdef0123");
    let keyed = Process::start_from(command, &[]);
    assert_eq!(status(&keyed, &format!("{publish}{FOREIGN}")), 401);
    assert_eq!(status(&keyed, &format!("GET / HTTP/1.1\r\n{FOREIGN}")), 200);
}
