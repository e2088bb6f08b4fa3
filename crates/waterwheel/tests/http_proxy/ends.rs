//! Exchanges that end early, or do not begin: upstreams and clients that fail, limits of time, drains.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{WAIT_LIMIT, connect};
use crate::support::nginx::Nginx;
use crate::support::scripted_server::ScriptedServer;
use crate::support::{exchange, read_all, run, start_proxy};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[test]
fn h11_an_upstream_that_does_not_answer_is_a_502_or_504_with_a_reason() {
    // Bound, so that no other process takes the port, and not listening: a connect is refused.
    let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&bound, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let closed = SocketAddr::try_from(getsockname(&bound).unwrap()).unwrap();
    let proxy = start_proxy(closed, &[]);
    let answer = exchange(proxy.address(), GET);
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains(&format!("cannot connect to {closed}")), "{answer}");

    let closing = ScriptedServer::start(|connection| drop(connection.read_head()));
    let proxy = start_proxy(closing.address, &[]);
    let answer = exchange(proxy.address(), GET);
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("closed the connection before the response"), "{answer}");

    let strange = ScriptedServer::answering("SSH-2.0-OpenSSH_9.2p1\r\n\r\n");
    let proxy = start_proxy(strange.address, &[]);
    let answer = exchange(proxy.address(), GET);
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("sent an invalid response"), "{answer}");

    let silent = ScriptedServer::start(|connection| {
        connection.read_head();
        connection.wait_for_close();
    });
    let proxy = start_proxy(silent.address, &["--timeout", "1"]);
    let answer = exchange(proxy.address(), GET);
    assert!(answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{answer}");
    assert!(answer.contains("sent no response within 1s"), "{answer}");
}

#[test]
fn h11_a_response_that_breaks_off_is_broken_off() {
    for head in ["Content-Length: 1000", "Transfer-Encoding: chunked"] {
        let upstream = ScriptedServer::start(move |connection| {
            connection.read_head();
            connection.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n"));
        });
        let proxy = start_proxy(upstream.address, &[]);
        let url = format!("http://{}/", proxy.address());
        let Some(output) = run("curl", &["--silent", "--max-time", "60", &url]) else { return };
        // CURLE_PARTIAL_FILE or CURLE_RECV_ERROR.
        assert!(matches!(output.status.code(), Some(18 | 56)), "{head}: {}", output.status);
        assert!(String::from_utf8(output.stdout).unwrap().contains("hello"));
    }
}

#[test]
fn h11_an_nginx_that_is_killed_in_a_body_is_noticed_and_one_that_comes_back_is_used() {
    let server = "location / { limit_rate 100k; }";
    let Some(mut nginx) = Nginx::start(server) else { return };
    nginx.write("large", &vec![b'x'; 10_000_000]);
    let proxy = start_proxy(nginx.address, &[]);
    let stream = connect(proxy.address());
    (&stream).write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut start = vec![0; 1000];
    (&stream).read_exact(&mut start).unwrap();
    assert!(start.starts_with(b"HTTP/1.1 200 OK\r\n"));
    nginx.kill();
    let mut rest = Vec::new();
    // The end of the stream, or a reset.
    let _ = (&stream).read_to_end(&mut rest);
    assert!(rest.len() < 9_000_000, "{} bytes after the kill", rest.len());
    let answer = exchange(proxy.address(), GET);
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    // Another server at the same address.
    let Ok(listener) = TcpListener::bind(nginx.address) else {
        return println!("not tested: another program has taken the address {}", nginx.address);
    };
    let back = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 16];
        stream.read_exact(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nback").unwrap();
        stream
    });
    let answer = exchange(proxy.address(), GET);
    assert!(answer.ends_with("\r\n\r\nback"), "{answer}");
    drop(back.join().unwrap());
}

#[test]
fn h11_a_client_that_goes_ends_the_request_to_the_upstream() {
    for parts in [&[][..], &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"]]
    {
        for resets in [false, true] {
            let (sender, events) = mpsc::channel();
            let upstream = ScriptedServer::start(move |connection| {
                connection.read_head();
                parts.iter().for_each(|part| connection.send(part));
                sender.send("asked").unwrap();
                connection.wait_for_close();
                sender.send("closed").unwrap();
            });
            let proxy = start_proxy(upstream.address, &[]);
            let stream = connect(proxy.address());
            (&stream).write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            assert_eq!(events.recv_timeout(WAIT_LIMIT).unwrap(), "asked");
            if !parts.is_empty() {
                (&stream).read_exact(&mut [0; 20]).unwrap();
            }
            match resets {
                // What is unread, if there is anything, is answered with RST.
                true => set_socket_linger(&stream, Some(Duration::ZERO)).unwrap(),
                false => stream.shutdown(Shutdown::Write).unwrap(),
            }
            drop(stream);
            assert_eq!(events.recv_timeout(WAIT_LIMIT).unwrap(), "closed");
        }
    }
}

#[test]
fn h11_an_upload_that_breaks_off_does_not_look_complete_to_the_upstream() {
    for head in ["Content-Length: 1000", "Transfer-Encoding: chunked"] {
        let (sender, events) = mpsc::channel();
        let upstream = ScriptedServer::start(move |connection| {
            connection.read_head();
            sender.send(connection.read_bytes(5)).unwrap();
            let mut rest = Vec::new();
            let _ = connection.stream().read_to_end(&mut rest);
            sender.send(rest).unwrap();
        });
        let proxy = start_proxy(upstream.address, &[]);
        let stream = connect(proxy.address());
        let request = format!("PUT / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n5\r\nhello\r\n");
        (&stream).write_all(request.as_bytes()).unwrap();
        events.recv_timeout(WAIT_LIMIT).unwrap();
        drop(stream);
        let rest = events.recv_timeout(WAIT_LIMIT).unwrap();
        assert!(rest.len() < 10 && !rest.ends_with(b"0\r\n\r\n"), "{}", rest.escape_ascii());
    }
}

#[test]
fn h15_sigterm_lets_requests_finish_and_ends_the_program() {
    let (asked, events) = mpsc::channel();
    let (go, may_answer) = mpsc::channel();
    let may_answer = std::sync::Mutex::new(may_answer);
    let upstream = ScriptedServer::start(move |connection| {
        connection.read_head();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
        asked.send(()).unwrap();
        may_answer.lock().unwrap().recv_timeout(WAIT_LIMIT).unwrap();
        connection.send(" last");
        connection.wait_for_close();
    });
    let mut proxy = start_proxy(upstream.address, &[]);
    let (stream, idle) = (connect(proxy.address()), connect(proxy.address()));
    (&stream).write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    events.recv_timeout(WAIT_LIMIT).unwrap();
    kill_process(Pid::from_raw(proxy.child.id() as i32).unwrap(), Signal::TERM).unwrap();
    // A connection without a request is closed when the drain begins.
    assert_eq!(read_all(&idle), "");
    go.send(()).unwrap();
    let answer = read_all(&stream);
    assert!(answer.ends_with("\r\n\r\nfirst last"), "{answer}");
    assert!(proxy.child.wait().unwrap().success());
}
