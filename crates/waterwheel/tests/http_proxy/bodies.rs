//! Bodies through the reverse proxy: back-pressure, trailers, Expect: 100-continue, streams without delay.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use crate::program::{Program, WAIT_LIMIT, connect};
use crate::support::scripted_server::ScriptedServer;
use crate::support::{exchange, read_all, start_proxy};

/// The length of bodies that must not be kept in memory.
const LARGE: usize = 200_000_000;

/// The memory that the proxy may have at most: its program and its threads, and what two sockets with a water mark keep.
const MAX_KIB: usize = 48 * 1024;

/// Time after which a write that makes no progress counts as stuck. A write that is only slow does not make a test wrong:
/// the other end then begins to read earlier.
const STUCK: Duration = Duration::from_secs(1);

/// Returns the byte of a body at a place. A prime number, so that no two blocks of a power of two are alike.
fn byte_at(place: usize) -> u8 {
    (place % 251) as u8
}

/// Writes a large body. Sends a message when the other end has not read for a while, and when all is written.
fn write_large(mut stream: &TcpStream, stuck: &mpsc::Sender<usize>) {
    stream.set_write_timeout(Some(STUCK)).unwrap();
    let block: Vec<u8> = (0..251 * 1024).map(byte_at).collect();
    let (mut written, mut is_stuck) = (0, false);
    while written < LARGE {
        let start = written % 251;
        let end = block.len().min(start + LARGE - written);
        match stream.write(&block[start..end]) {
            Ok(len) => written += len,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                if !std::mem::replace(&mut is_stuck, true) {
                    stuck.send(written).unwrap();
                }
            }
        }
    }
    stuck.send(written).unwrap();
}

/// Reads a large body. Returns the peak memory of the proxy meanwhile, in KiB.
fn read_large(mut stream: impl Read, proxy: Option<&Program>) -> usize {
    let (mut buffer, mut read, mut peak) = (vec![0; 1 << 16], 0, 0);
    while read < LARGE {
        let len = stream.read(&mut buffer).unwrap();
        assert_ne!(len, 0, "the body ends after {read} bytes");
        let is_same = buffer[..len].iter().enumerate().all(|(i, byte)| *byte == byte_at(read + i));
        assert!(is_same, "other bytes within {read}..{}", read + len);
        if (read + len) / 10_000_000 > read / 10_000_000 {
            peak = peak.max(proxy.map_or(0, Program::memory));
        }
        read += len;
    }
    peak
}

fn read_head(mut stream: &TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn h11_a_slow_client_stops_the_upstream_and_costs_no_memory() {
    let (sender, stuck) = mpsc::channel();
    let upstream = ScriptedServer::start(move |connection| {
        connection.read_head();
        connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
        write_large(connection.stream(), &sender);
    });
    let proxy = start_proxy(upstream.address, &[]);
    let stream = connect(proxy.address());
    (&stream).write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    // Reads nothing until the upstream cannot write any more.
    let written = stuck.recv_timeout(WAIT_LIMIT).unwrap();
    assert!(written < LARGE / 4, "the proxy and the sockets took {written} bytes");
    assert!(proxy.peak_memory() < MAX_KIB, "{} KiB", proxy.peak_memory());
    assert!(read_head(&stream).starts_with("HTTP/1.1 200 OK\r\n"));
    let most = read_large(&stream, Some(&proxy));
    assert!(most < MAX_KIB && proxy.peak_memory() < MAX_KIB, "{} KiB", proxy.peak_memory());
    assert_eq!(stuck.recv_timeout(WAIT_LIMIT).unwrap(), LARGE);
}

#[test]
fn h11_a_slow_upstream_stops_the_client_and_costs_no_memory() {
    let (go, may_read) = mpsc::channel();
    let may_read = std::sync::Mutex::new(may_read);
    let upstream = ScriptedServer::start(move |connection| {
        assert!(connection.read_head().unwrap().contains("content-length: 200000000\r\n"));
        may_read.lock().unwrap().recv_timeout(WAIT_LIMIT).unwrap();
        read_large(&mut *connection, None);
        connection.send("HTTP/1.1 204 No Content\r\n\r\n");
    });
    let proxy = start_proxy(upstream.address, &[]);
    let stream = connect(proxy.address());
    let head = format!(
        "PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {LARGE}\r\n\r\n"
    );
    (&stream).write_all(head.as_bytes()).unwrap();
    let (sender, stuck) = mpsc::channel();
    let writing = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || write_large(&writing, &sender));
    let written = stuck.recv_timeout(WAIT_LIMIT).unwrap();
    assert!(written < LARGE / 4, "the proxy and the sockets took {written} bytes");
    assert!(proxy.peak_memory() < MAX_KIB, "{} KiB", proxy.peak_memory());
    go.send(()).unwrap();
    writer.join().unwrap();
    let answer = read_all(&stream);
    assert!(answer.starts_with("HTTP/1.1 204 No Content\r\n"), "{answer}");
    assert!(proxy.peak_memory() < MAX_KIB, "{} KiB", proxy.peak_memory());
}

#[test]
fn h11_trailers_pass_in_both_directions() {
    let upstream = ScriptedServer::start(|connection| {
        let head = connection.read_head().unwrap();
        assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
        let mut body = String::new();
        while !body.ends_with("\r\n\r\n") {
            body += &connection.read_line();
        }
        assert_eq!(body, "5\r\nhello\r\n0\r\nx-sum: up\r\n\r\n");
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.send("4\r\nbody\r\n0\r\nX-Sum: down\r\n\r\n");
    });
    let proxy = start_proxy(upstream.address, &[]);
    let answer = exchange(
        proxy.address(),
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Sum: up\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n4\r\nbody\r\n0\r\nx-sum: down\r\n\r\n"), "{answer}");
}

const EXPECTS: &str = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\
                       Expect: 100-continue\r\n\r\n";

#[test]
fn h04_an_upstream_that_wants_the_body_has_the_client_told_to_send_it() {
    let upstream = ScriptedServer::start(|connection| {
        let head = connection.read_head().unwrap();
        assert!(head.contains("expect: 100-continue\r\n"), "{head}");
        connection.send("HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(connection.read_bytes(5), b"hello");
        connection.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    });
    let proxy = start_proxy(upstream.address, &[]);
    let stream = connect(proxy.address());
    (&stream).write_all(EXPECTS.as_bytes()).unwrap();
    assert_eq!(read_head(&stream), "HTTP/1.1 100 Continue\r\n\r\n");
    (&stream).write_all(b"hello").unwrap();
    let answer = read_all(&stream);
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
}

#[test]
fn h04_an_upstream_that_refuses_a_body_is_the_answer_to_a_client_that_has_asked() {
    let upstream = ScriptedServer::start(|connection| {
        assert!(connection.read_head().unwrap().contains("expect: 100-continue\r\n"));
        connection.send("HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\n\r\nno\n");
        // The proxy closes a connection whose request it does not complete.
        connection.wait_for_close();
    });
    let proxy = start_proxy(upstream.address, &[]);
    let answer = exchange(proxy.address(), EXPECTS);
    assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nno\n"), "{answer}");
}

#[test]
fn h11_parts_of_a_stream_pass_without_delay() {
    let (sent, received) = (mpsc::channel(), mpsc::channel::<()>());
    let got = std::sync::Mutex::new(received.1);
    let upstream = ScriptedServer::start(move |connection| {
        connection.read_head();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        connection.send(head);
        // The next event is sent when the client has the one before.
        for number in 0..20 {
            let event = format!("data: {number:02}\n\n");
            connection.send(format!("{:x}\r\n{event}\r\n", event.len()));
            sent.0.send(event).unwrap();
            got.lock().unwrap().recv_timeout(WAIT_LIMIT).unwrap();
        }
        connection.send("0\r\n\r\n");
    });
    let proxy = start_proxy(upstream.address, &[]);
    let stream = connect(proxy.address());
    (&stream).write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert!(read_head(&stream).contains("content-type: text/event-stream\r\n"));
    for _ in 0..20 {
        let event = sent.1.recv_timeout(WAIT_LIMIT).unwrap();
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        let mut read = vec![0; chunk.len()];
        (&stream).read_exact(&mut read).unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), chunk);
        received.0.send(()).unwrap();
    }
    assert_eq!(read_all(&stream), "0\r\n\r\n");
}
