//! Requests that open a connection, and requests that do not.

use bytes::Bytes;
use waterwheel_channel::HandlerResult;
use waterwheel_http::{HttpServer, Request, Response};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_websocket::{
    DeflateOptions, HandshakeError, WebSocketContext, WebSocketHandler, WebSocketMessage,
    WebSocketOptions, WebSocketUpgrade,
};

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

/// Echoes, and tells the subprotocol first if there is one.
struct Echo;

impl WebSocketHandler for Echo {
    fn on_open(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        if let Some(name) = socket.subprotocol() {
            socket.send_text(name)?;
        }
        Ok(())
    }

    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        socket.send(message)?;
        Ok(())
    }
}

async fn service(request: Request) -> Result<Response, HandshakeError> {
    let deflate = WebSocketOptions::builder().deflate(DeflateOptions::default()).build().unwrap();
    let options = match request.path() {
        "/deflate" => deflate,
        _ => WebSocketOptions::default(),
    };
    let upgrade = WebSocketUpgrade::of(&request, &options)?;
    let upgrade = match request.path() {
        "/same" => upgrade.require_same_origin()?,
        "/listed" => upgrade.require_origin(|origin| origin == "https://app.example")?,
        _ => upgrade,
    };
    Ok(upgrade.choose_subprotocol(["v2", "v1"]).handle(Echo))
}

/// Sends bytes to a server; returns its answer, head and what follows it.
fn answer(bytes: &[u8]) -> (String, Vec<u8>) {
    let server = HttpServer::new(service);
    let mut channel = Embedded::builder().stream().build(|edit| server.initialise(edit)).unwrap();
    channel.write_inbound(Bytes::copy_from_slice(bytes));
    let mut answer = Vec::new();
    while let Some(bytes) = channel.read_outbound::<Bytes>() {
        answer.extend_from_slice(&bytes);
    }
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("no head") + 4;
    let rest = answer.split_off(end);
    (String::from_utf8(answer).unwrap().to_lowercase(), rest)
}

/// Returns a valid request to a path, with more fields.
fn request(path: &str, fields: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: chat.example:8080\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n{KEY}\r\n{fields}\r\n"
    )
}

fn assert_opened(head: &str) {
    assert!(head.starts_with("http/1.1 101 switching protocols\r\n"), "{head}");
    assert!(head.contains("\r\nupgrade: websocket\r\n"), "{head}");
    assert!(head.contains("\r\nconnection: upgrade\r\n"), "{head}");
    assert!(head.contains("\r\nsec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{head}");
}

#[test]
fn w01_a_valid_request_opens_a_connection() {
    let (head, rest) = answer(request("/", "").as_bytes());
    assert_opened(&head);
    assert_eq!(rest, b"");
    for absent in ["extensions", "protocol", "content-length", "transfer-encoding"] {
        assert!(!head.contains(&format!("\r\nsec-websocket-{absent}")), "{head}");
        assert!(!head.contains(&format!("\r\n{absent}:")), "{head}");
    }
}

#[test]
fn w01_bytes_behind_the_handshake_are_not_lost() {
    let frame = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    let request = request("/", "");
    let bytes = [request.as_bytes(), frame].concat();
    let (head, rest) = answer(&bytes);
    assert_opened(&head);
    assert_eq!(rest, b"\x81\x05Hello");
    let (head, rest) = answer(&bytes[..bytes.len() - 3]);
    assert_opened(&head);
    assert_eq!(rest, b"", "the frame is not complete");
}

#[test]
fn w01_names_of_the_request_may_be_in_any_case_and_among_others() {
    let request = format!(
        "GET / HTTP/1.1\r\nhost: a\r\nUPGRADE: h2c, WebSocket\r\n\
         connection: keep-alive, upGrade\r\nSEC-WEBSOCKET-VERSION: 13\r\n{KEY}\r\n\r\n"
    );
    assert_opened(&answer(request.as_bytes()).0);
}

#[test]
fn w01_a_wrong_request_gets_the_answer_of_the_rfc() {
    let valid = request("/", "");
    let cases: [(&str, &str, &str, &str); 13] = [
        ("GET /", "POST /", "405", "\r\nallow: get\r\n"),
        ("GET /", "HEAD /", "405", "\r\nallow: get\r\n"),
        ("Upgrade: websocket\r\n", "", "426", "\r\nupgrade: websocket\r\n"),
        ("Upgrade: websocket", "Upgrade: websockets", "426", "\r\nupgrade: websocket\r\n"),
        ("Connection: Upgrade\r\n", "", "426", "\r\nconnection: upgrade\r\n"),
        ("HTTP/1.1", "HTTP/1.0", "426", "\r\nupgrade: websocket\r\n"),
        ("Version: 13", "Version: 12", "426", "\r\nsec-websocket-version: 13\r\n"),
        ("Version: 13", "Version: 13, 8", "426", "\r\nsec-websocket-version: 13\r\n"),
        ("Sec-WebSocket-Version: 13\r\n", "", "426", "\r\nsec-websocket-version: 13\r\n"),
        (KEY, "X: y", "400", "\r\n"),
        ("ZQ==\r\n", "ZQ=\r\n", "400", "\r\n"),
        ("Host:", "Sec-WebSocket-Protocol: a b\r\nHost:", "400", "\r\n"),
        ("Host:", "Sec-WebSocket-Extensions: a;;b\r\nHost:", "400", "\r\n"),
    ];
    for (part, replacement, status, field) in cases {
        let wrong = valid.replacen(part, replacement, 1);
        assert_ne!(wrong, valid);
        let (head, _) = answer(wrong.as_bytes());
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{wrong}\n{head}");
        assert!(head.contains(field), "{wrong}\n{head}");
    }
    let twice = request("/", &format!("{KEY}\r\n"));
    assert!(answer(twice.as_bytes()).0.starts_with("http/1.1 400 "), "two keys");
    let body = request("/", "Content-Length: 1\r\n") + "x";
    assert!(answer(body.as_bytes()).0.starts_with("http/1.1 400 "), "a body");
    let empty_body = request("/", "Content-Length: 0\r\n");
    assert_opened(&answer(empty_body.as_bytes()).0);
}

#[test]
fn w01_an_answer_to_a_wrong_request_says_what_is_wrong() {
    let wrong = request("/", "").replacen("Version: 13", "Version: 8", 1);
    let (_, body) = answer(wrong.as_bytes());
    assert_eq!(body, b"the version of the WebSocket protocol is not 13\n");
}

#[test]
fn w01_an_origin_is_checked_if_the_server_wants_it() {
    let opens = |path: &str, origin: &str| {
        let (head, _) = answer(request(path, origin).as_bytes());
        assert!(head.starts_with("http/1.1 101 ") || head.starts_with("http/1.1 403 "), "{head}");
        head.starts_with("http/1.1 101 ")
    };
    for (path, origin, is_accepted) in [
        ("/", "Origin: https://evil.example\r\n", true),
        ("/same", "", true),
        ("/same", "Origin: https://CHAT.example:8080\r\n", true),
        ("/same", "Origin: https://chat.example\r\n", false),
        ("/same", "Origin: https://chat.example:8080.evil.example\r\n", false),
        ("/same", "Origin: https://evil.example\r\n", false),
        ("/same", "Origin: null\r\n", false),
        ("/listed", "", true),
        ("/listed", "Origin: https://app.example\r\n", true),
        ("/listed", "Origin: https://chat.example:8080\r\n", false),
    ] {
        assert_eq!(opens(path, origin), is_accepted, "{path} {origin}");
    }
}

#[test]
fn w01_the_first_subprotocol_of_the_server_that_the_client_offers_is_chosen() {
    let chosen = |offer: &str| {
        let (head, rest) = answer(request("/", offer).as_bytes());
        assert_opened(&head);
        let line = head.lines().find(|line| line.starts_with("sec-websocket-protocol: "));
        (line.map(|line| line[24..].to_owned()), rest)
    };
    assert_eq!(chosen(""), (None, vec![]));
    assert_eq!(chosen("Sec-WebSocket-Protocol: other\r\n"), (None, vec![]));
    let both = "Sec-WebSocket-Protocol: v0, v1\r\nSec-WebSocket-Protocol: v2\r\n";
    assert_eq!(chosen(both), (Some("v2".into()), b"\x81\x02v2".to_vec()));
    assert_eq!(
        chosen("Sec-WebSocket-Protocol: V2,v1\r\n"),
        (Some("v1".into()), b"\x81\x02v1".to_vec())
    );
}

#[test]
fn w03_compression_is_negotiated_if_both_sides_want_it() {
    let extensions = |path: &str, offer: &str| {
        let (head, _) =
            answer(request(path, &format!("Sec-WebSocket-Extensions: {offer}\r\n")).as_bytes());
        assert_opened(&head);
        let line = head.lines().find(|line| line.starts_with("sec-websocket-extensions: "));
        line.map(|line| line[26..].to_owned())
    };
    assert_eq!(extensions("/", "permessage-deflate"), None);
    assert_eq!(extensions("/deflate", "x-other; a=1"), None);
    assert_eq!(extensions("/deflate", "permessage-deflate; unknown"), None);
    let agreed = extensions("/deflate", "x, permessage-deflate; client_max_window_bits").unwrap();
    assert!(agreed.starts_with("permessage-deflate; server_no_context_takeover"), "{agreed}");
    let second = "permessage-deflate; unknown, permessage-deflate; server_max_window_bits=\"10\"";
    let agreed = extensions("/deflate", second).unwrap();
    assert!(agreed.contains("server_max_window_bits=10"), "{agreed}");
}
