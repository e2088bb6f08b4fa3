//! Upgrades through the reverse proxy, by a protocol that echoes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::program::connect;
use crate::support::scripted_server::ScriptedServer;
use crate::support::{curl_text, exchange, field, read_all, start_proxy, unequal_bytes};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Switches every connection to a protocol that greets and sends back what it gets; the end too.
fn echo_server() -> ScriptedServer {
    ScriptedServer::start(|connection| {
        let head = connection.read_head().unwrap();
        assert_eq!(field(&head, "upgrade"), Some("echo"), "{head}");
        assert_eq!(field(&head, "connection"), Some("upgrade"), "{head}");
        assert!(field(&head, "sec-websocket-key").is_some(), "{head}");
        // The greeting comes in the same packet as the head.
        connection.send(format!("{SWITCHED}welcome;"));
        loop {
            let bytes = connection.read_some(1 << 16);
            if bytes.is_empty() {
                break;
            }
            connection.send(bytes);
        }
        connection.send("farewell");
    })
}

/// Reads the head of a response that switches protocols.
fn read_switched(mut stream: &TcpStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert_eq!(field(&head, "connection"), Some("upgrade"));
    assert_eq!(field(&head, "upgrade"), Some("echo"));
    assert_eq!(field(&head, "sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
}

#[test]
fn h04_an_upgrade_passes_the_proxy_with_what_comes_behind_the_heads() {
    let upstream = echo_server();
    let proxy = start_proxy(upstream.address, &[]);
    let stream = connect(proxy.address());
    (&stream).write_all(format!("{UPGRADE}early;").as_bytes()).unwrap();
    read_switched(&stream);
    (&stream).write_all(b"later;").unwrap();
    let mut read = [0; 20];
    (&stream).read_exact(&mut read).unwrap();
    assert_eq!(&read, b"welcome;early;later;");
    // The echo's last words come after the client has finished.
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&stream), "farewell");
}

#[test]
fn h04_a_tunnel_carries_much_in_both_directions_at_once() {
    const LENGTH: usize = 20_000_000;
    let upstream = echo_server();
    let proxy = start_proxy(upstream.address, &[]);
    let stream = connect(proxy.address());
    (&stream).write_all(UPGRADE.as_bytes()).unwrap();
    read_switched(&stream);
    let bytes = unequal_bytes(LENGTH);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&bytes).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut read = Vec::with_capacity(LENGTH + 16);
        (&stream).read_to_end(&mut read).unwrap();
        assert!(read.starts_with(b"welcome;") && read.ends_with(b"farewell"));
        assert!(read[8..read.len() - 8] == bytes, "{} bytes of {LENGTH}", read.len() - 16);
    });
}

#[test]
fn h04_an_upstream_may_finish_first() {
    let (sender, words) = std::sync::mpsc::channel();
    let upstream = ScriptedServer::start(move |connection| {
        connection.read_head();
        connection.send(format!("{SWITCHED}last words"));
        connection.finish();
        sender.send(connection.read_line()).unwrap();
    });
    let proxy = start_proxy(upstream.address, &[]);
    let stream = connect(proxy.address());
    (&stream).write_all(UPGRADE.as_bytes()).unwrap();
    read_switched(&stream);
    assert_eq!(read_all(&stream), "last words");
    // The other direction is open.
    (&stream).write_all(b"heard\n").unwrap();
    assert_eq!(words.recv_timeout(crate::program::WAIT_LIMIT).unwrap(), "heard\n");
}

#[test]
fn h04_a_tunnel_whose_end_is_reset_ends() {
    let upstream = ScriptedServer::start(move |connection| {
        connection.read_head();
        connection.send(SWITCHED);
        // Unread data turns the close into a reset.
        connection.stream().peek(&mut [0]).unwrap();
    });
    let proxy = start_proxy(upstream.address, &[]);
    let stream = connect(proxy.address());
    (&stream).write_all(UPGRADE.as_bytes()).unwrap();
    read_switched(&stream);
    (&stream).write_all(b"unread").unwrap();
    // The end of the stream, or a reset.
    let mut rest = Vec::new();
    let _ = (&stream).read_to_end(&mut rest);
    assert!(rest.is_empty(), "{rest:?}");
}

#[test]
fn h04_an_upgrade_that_is_declined_is_an_ordinary_response() {
    let upstream =
        ScriptedServer::answering("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno");
    let proxy = start_proxy(upstream.address, &[]);
    let request = UPGRADE.replace("keep-alive, Upgrade", "close, Upgrade");
    let answer = exchange(proxy.address(), &request);
    assert!(answer.starts_with("HTTP/1.1 426 ") && answer.ends_with("\r\n\r\nno"), "{answer}");
    // The connection to the upstream is in order, too.
    let url = format!("http://{}/", proxy.address());
    let Some(both) = curl_text(&["-H", "connection: upgrade", "-H", "upgrade: echo", &url, &url])
    else {
        return;
    };
    assert_eq!(both, "nono");
}
