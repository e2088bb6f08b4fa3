//! The example ends on SIGTERM, under load and at rest.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::corpus::answers::{Answer, read_answers};
use crate::program::Program;
use crate::raw_client::RawClient;

fn terminate(program: &Program) {
    kill_process(Pid::from_child(&program.child), Signal::TERM).unwrap();
}

fn assert_ends(mut program: Program) {
    let status = program.child.wait().unwrap();
    assert!(status.success(), "{status}");
}

/// The number of requests that a client sends at once: more than the server answers at once.
const PIPELINED: usize = 20;

/// Sends requests, many at once, until the server ends the connection. Tells `begun` when the first were answered.
/// Returns everything that was received.
fn load(mut stream: TcpStream, begun: &mpsc::Sender<()>) -> Vec<u8> {
    let get = "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let batch = [get, post].concat().repeat(PIPELINED / 2);
    let mut reader = stream.try_clone().unwrap();
    let begun = begun.clone();
    let received = thread::spawn(move || {
        let (mut received, mut part) = (Vec::new(), [0; 16 * 1024]);
        loop {
            match reader.read(&mut part) {
                Ok(0) => {
                    let _ = reader.shutdown(Shutdown::Both); // Ends the writer too.
                    return received;
                }
                Ok(length) => received.extend_from_slice(&part[..length]),
                // Nothing was answered and nothing is lost: the request came when the connection was closed.
                Err(error) => {
                    assert_eq!((error.kind(), received.len()), (ErrorKind::ConnectionReset, 0));
                    return received;
                }
            }
            let _ = begun.send(()); // The test listens only at the beginning.
        }
    });
    let failed = loop {
        if let Err(error) = stream.write_all(batch.as_bytes()) {
            break error.kind();
        }
    };
    assert!(matches!(failed, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{failed}");
    received.join().unwrap()
}

#[test]
fn h12_every_answer_under_load_is_complete_when_the_server_drains() {
    for _ in 0..5 {
        let program = Program::start("json_api", &[&0]);
        let (begun, has_begun) = mpsc::channel();
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let (stream, begun) = (program.connect(), begun.clone());
                thread::spawn(move || load(stream, &begun))
            })
            .collect();
        for _ in 0..50 {
            has_begun.recv().unwrap();
        }
        terminate(&program);
        for client in clients {
            let received = client.join().unwrap();
            let answers = read_answers(&received, &[]).unwrap();
            let is_last = |answer: &Answer| answer.has_token("connection", "close");
            let before_last = &answers[..answers.len().saturating_sub(1)];
            assert!(!before_last.iter().any(is_last), "an answer behind the last one");
            for pair in answers.chunks(2) {
                assert_eq!(pair[0].body, b"Hello, World!");
                assert_eq!(pair.get(1).map_or(&b"hello"[..], |echo| &echo.body), b"hello");
            }
        }
        assert_ends(program);
    }
}

#[test]
fn h12_a_drain_closes_idle_connections_and_finishes_what_is_in_flight() {
    let program = Program::start("json_api", &[&0]);
    // Some for each loop: when all of them are closed, every loop drains.
    let fresh = [(); 64].map(|()| RawClient::new(program.address()));
    let mut kept = RawClient::new(program.address());
    kept.send("GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n");
    kept.read_until("Hello, World!");
    let mut busy = RawClient::new(program.address());
    busy.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    busy.read_until("hello");
    let mut waiting = RawClient::new(program.address());
    waiting.send("POST /notes HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n");
    waiting.send("Content-Length: 12\r\nExpect: 100-continue\r\n\r\n");
    waiting.read_until("HTTP/1.1 100 Continue\r\n\r\n");

    terminate(&program);
    for client in fresh {
        assert_eq!(client.read_to_end(), "");
    }
    assert_eq!(kept.read_to_end(), "");
    busy.send("world");
    busy.send("GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(busy.read_to_end(), "world", "the request behind it is not begun");
    waiting.send(r#"{"text":"a"}"#);
    let answer = waiting.read_to_end();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n{\"id\":1,\"text\":\"a\"}"), "{answer}");
    assert_ends(program);
}
