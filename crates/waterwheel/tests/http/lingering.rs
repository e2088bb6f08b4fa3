//! Clients that send more than the server wants: they get to read its answer (no RST takes it away).

use std::thread;

use crate::program::Program;
use crate::raw_client::RawClient;

/// More than the limit of a body, and more than the buffers of two sockets.
const UPLOAD: usize = 20 * 1024 * 1024;

/// Sends everything before it reads anything, as simple clients do, and returns what it reads then.
fn upload(program: &Program, head: &str) -> String {
    let mut client = RawClient::new(program.address());
    client.send(head);
    let part = [b'u'; 64 * 1024];
    for _ in 0..UPLOAD / part.len() {
        client.send(part);
    }
    client.finish();
    client.read_to_end()
}

fn assert_one_refusal(answer: &str, status: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    assert_eq!(length, Some(&*body.len().to_string()), "a whole body: {answer}");
}

#[test]
fn h02_a_client_that_sends_20_mib_reads_the_whole_413() {
    let program = Program::start("json_api", &[&0]);
    let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {UPLOAD}\r\n\r\n");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_one_refusal(&upload(&program, &head), "413 ");
                }
            });
        }
    });
}

#[test]
fn h02_a_client_that_sends_20_mib_behind_a_malformed_head_reads_the_whole_400() {
    let program = Program::start("json_api", &[&0]);
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
    for _ in 0..10 {
        assert_one_refusal(&upload(&program, head), "400 ");
    }
}

#[test]
fn h02_a_client_that_sends_20_mib_to_a_path_without_a_route_reads_the_whole_answer() {
    let program = Program::start("json_api", &[&0]);
    let length = 8 * 1024 * 1024; // What the server accepts; the rest is taken for other requests.
    for (path, status) in [("/nowhere", "404 "), ("/plaintext", "405 ")] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        for _ in 0..5 {
            assert_one_refusal(&upload(&program, &head), status);
        }
    }
}
