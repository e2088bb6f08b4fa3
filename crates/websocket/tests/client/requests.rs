//! Requests of clients: their fields, and the requests that are refused before they are sent.

use waterwheel_websocket::{ConnectError, DeflateOptions, WebSocketOptions};

use crate::support::client_bench::{ClientBench, URL, switched};

#[test]
fn w01_a_request_has_the_fields_of_the_handshake_and_those_of_the_user() {
    let options = WebSocketOptions::builder().deflate(DeflateOptions::default()).build().unwrap();
    let mut bench = ClientBench::new(&options);
    let request = bench.connector.request(URL);
    let request = request.header("authorization", "Bearer abc").header("origin", "https://a");
    let opening = bench.start(request.subprotocol("v2").subprotocol("v1").connect());
    let (peer, sent) = bench.accept();
    let lower = sent.to_ascii_lowercase();
    assert!(lower.starts_with("get /chat?room=1 http/1.1\r\n"), "{sent}");
    for field in [
        "host: 192.0.2.1",
        "upgrade: websocket",
        "connection: upgrade",
        "sec-websocket-version: 13",
        "sec-websocket-protocol: v2, v1",
        "authorization: bearer abc",
        "origin: https://a",
    ] {
        assert!(lower.contains(&format!("\r\n{field}\r\n")), "{field}: {sent}");
    }
    assert!(lower.contains("\r\nsec-websocket-extensions: permessage-deflate"), "{sent}");
    for absent in ["content-length", "transfer-encoding"] {
        assert!(!lower.contains(absent), "{sent}");
    }
    bench.send_raw(&peer, switched(&sent, "Sec-WebSocket-Protocol: v1\r\n"));
    let socket = opening.take().unwrap();
    assert_eq!(socket.subprotocol(), Some("v1"));
    bench.on_loop(|| drop(socket));
}

#[test]
fn w01_every_connection_has_a_key_of_its_own() {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let mut keys = Vec::new();
    for _ in 0..3 {
        let request = bench.request();
        let opening = bench.start(request.connect());
        let (_, sent) = bench.accept();
        let lower = sent.to_ascii_lowercase();
        let at = lower.find("sec-websocket-key: ").unwrap() + 19;
        keys.push(sent[at..].lines().next().unwrap().to_owned());
        opening.cancel(&mut bench);
    }
    assert!(keys.iter().all(|key| key.len() == 24 && key.ends_with("==")), "{keys:?}");
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 3);
}

#[test]
fn w01_a_request_that_cannot_be_sent_is_refused_before_a_connect() {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let connector = bench.connector.clone();
    let of = |url: &str| connector.request(url);
    let cases = [
        (of("http://192.0.2.1/"), "scheme"),
        (of("192.0.2.1"), "scheme"),
        (of("ws://192.0.2.1/#part"), "fragment"),
        (of(URL).header("sec-websocket-key", "x"), "the handshake itself sets"),
        (of(URL).header("upgrade", "x"), "the handshake itself sets"),
        (of(URL).header("bad name", "x"), "invalid"),
        (of(URL).header("name", "bad\nvalue"), "invalid"),
        (of(URL).subprotocol("two words"), "not different tokens"),
        (of(URL).subprotocol(""), "not different tokens"),
        (of(URL).subprotocol("a,b"), "not different tokens"),
        (of(URL).subprotocol("a").subprotocol("a"), "not different tokens"),
    ];
    for (request, reason) in cases {
        let opening = bench.start(request.connect());
        let error = opening.take().unwrap_err();
        assert!(
            matches!(error, ConnectError::InvalidUrl { .. } | ConnectError::InvalidRequest { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(reason), "{error}");
        assert!(bench.sockets.next_connect().is_none());
    }
    drop(connector);
    bench.assert_nothing_left();
}
