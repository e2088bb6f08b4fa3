//! Other transports than TCP.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use waterwheel::channel::UnixAddress;
use waterwheel::http::{Request, Response, serve};
use waterwheel::net::Unix;
use waterwheel::websocket::{HandshakeError, WebSocket, WebSocketOptions, WebSocketUpgrade};

use crate::program::WAIT_LIMIT;
use crate::support::one_loop;

async fn echo(request: Request) -> Result<Response, HandshakeError> {
    let upgrade = WebSocketUpgrade::of(&request, &WebSocketOptions::default())?;
    Ok(upgrade.run(async |mut socket: WebSocket| {
        while let Some(message) = socket.next().await {
            socket.send(message?).await?;
        }
        Ok::<_, waterwheel::executor::Error>(())
    }))
}

/// The request and the answer of RFC 6455, section 1.3, and the frames of section 5.7.
#[test]
fn c17_messages_pass_over_a_unix_socket() {
    let group = one_loop();
    let path = std::env::temp_dir().join(format!("waterwheel-websocket-{}", std::process::id()));
    let address = UnixAddress::path(&path);
    let _server = serve(&group, Unix, address, echo).join().unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
        .write_all(
            b"GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\n\
              Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
              Sec-WebSocket-Version: 13\r\n\r\n\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
        )
        .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{head}");
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"\x81\x05Hello");
    // A Close with the code 1000, masked by zeros; then the end, to the last byte.
    stream.write_all(b"\x88\x82\0\0\0\0\x03\xe8").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"\x88\x02\x03\xe8");
    std::fs::remove_file(&path).unwrap();
}
