//! The answers of a server to the opening handshake.

use std::time::Duration;

use waterwheel_testkit::manual::Peer;
use waterwheel_websocket::{
    ConnectError, DeflateOptions, ResponseViolation, WebSocketMessage, WebSocketOptions,
};

use crate::support::client_bench::{ClientBench, URL, proof, switched};
use crate::support::frames::frame;
use crate::support::loop_bench::SECOND;
use crate::support::script::Script;

/// A valid answer to the offer of the default options, twice.
const TWICE: &str = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; \
     client_no_context_takeover, permessage-deflate; server_no_context_takeover\r\nUpgrade: w";

/// Answers a request with the subprotocol `v2` by `answer`; returns the error.
fn refused(options: &WebSocketOptions, answer: impl Fn(&str) -> String) -> (ConnectError, Peer) {
    let mut bench = ClientBench::new(options);
    let request = bench.request().subprotocol("v2");
    let opening = bench.start(request.connect());
    let (peer, request) = bench.accept();
    bench.send_raw(&peer, answer(&request));
    let error = opening.take().unwrap_err();
    bench.run();
    assert!(peer.is_closed(), "the connection of a wrong answer is closed: {error}");
    drop(opening);
    bench.assert_nothing_left();
    (error, peer)
}

#[test]
fn w01_an_answer_that_does_not_fit_the_request_is_an_error_and_closes_the_connection() {
    let plain = WebSocketOptions::default();
    let deflate = WebSocketOptions::builder().deflate(DeflateOptions::default()).build().unwrap();
    let none = |name: &str| ResponseViolation::Extension { name: name.into() };
    let chosen = |chosen: &str| ResponseViolation::Subprotocol { chosen: chosen.into() };
    let cases: [(&WebSocketOptions, &str, &str, ResponseViolation); 13] = [
        (&plain, "Upgrade: websocket", "Upgrade: other", ResponseViolation::NoUpgrade),
        (&plain, "Connection: Upgrade\r\n", "Connection: x\r\n", ResponseViolation::NoUpgrade),
        (&plain, "Accept: ", "Accept: x", ResponseViolation::Accept),
        (&plain, "Sec-WebSocket-Accept", "X-Accept", ResponseViolation::Accept),
        (
            &plain,
            "Sec-WebSocket-Accept",
            "Sec-WebSocket-Accept: x\r\nSec-WebSocket-Accept",
            ResponseViolation::Accept,
        ),
        (&plain, "Upgrade: w", "Sec-WebSocket-Protocol: v1\r\nUpgrade: w", chosen("v1")),
        (&plain, "Upgrade: w", "Sec-WebSocket-Protocol: v2, v2\r\nUpgrade: w", chosen("v2, v2")),
        (&plain, "Upgrade: w", "Sec-WebSocket-Protocol:\r\nUpgrade: w", chosen("")),
        (
            &plain,
            "Upgrade: w",
            "Sec-WebSocket-Extensions: permessage-deflate\r\nUpgrade: w",
            none("permessage-deflate"),
        ),
        (
            &deflate,
            "Upgrade: w",
            "Sec-WebSocket-Extensions: x-other\r\nUpgrade: w",
            none("x-other"),
        ),
        (
            &deflate,
            "Upgrade: w",
            "Sec-WebSocket-Extensions: a;;b\r\nUpgrade: w",
            ResponseViolation::Extensions,
        ),
        (&deflate, "Upgrade: w", TWICE, none("permessage-deflate")),
        (&plain, "Upgrade: websocket\r\n", "Upgrade: websockets\r\n", ResponseViolation::NoUpgrade),
    ];
    for (options, part, replacement, violation) in cases {
        let (error, _) = refused(options, |request| {
            let answer = switched(request, "");
            let wrong = answer.replacen(part, replacement, 1);
            assert_ne!(wrong, answer, "{part}");
            wrong
        });
        let ConnectError::InvalidResponse(found) = error else {
            panic!("{replacement}: {error:?}")
        };
        assert_eq!(found, violation, "{replacement}");
    }
    let (error, _) = refused(&deflate, |request| {
        switched(request, "Sec-WebSocket-Extensions: permessage-deflate; unknown=1\r\n")
    });
    assert!(
        matches!(error, ConnectError::InvalidResponse(ResponseViolation::Deflate(_))),
        "{error:?}"
    );
}

#[test]
fn r04_an_error_shows_the_beginning_of_a_long_value() {
    let long = "x".repeat(10_000);
    for field in ["Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions"] {
        let (error, _) = refused(&WebSocketOptions::default(), |request| {
            switched(request, &format!("{field}: {long}\r\n"))
        });
        let shown = error.to_string();
        assert!(shown.contains("xxx") && shown.len() < 200, "{field}: {} bytes", shown.len());
    }
}

#[test]
fn w01_an_answer_in_another_case_and_with_more_values_is_accepted() {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let request = bench.request().subprotocol("v2");
    let opening = bench.start(request.connect());
    let (peer, request) = bench.accept();
    let answer = format!(
        "HTTP/1.1 101 Sure\r\nUPGRADE: WebSocket\r\nconnection: keep-alive, upgrade\r\n\
         sec-websocket-accept: {}\r\nsec-websocket-protocol: v2\r\n\r\n",
        proof(&request)
    );
    bench.send_raw(&peer, answer);
    let socket = opening.take().unwrap();
    assert_eq!(socket.subprotocol(), Some("v2"));
    bench.on_loop(|| drop(socket));
}

#[test]
fn w01_another_status_is_a_refusal_with_its_fields() {
    for status in ["200 OK", "302 Found", "403 Forbidden", "426 Upgrade Required", "503 Busy"] {
        let mut bench = ClientBench::new(&WebSocketOptions::default());
        let request = bench.request();
        let opening = bench.start(request.connect());
        let (peer, _) = bench.accept();
        let head = format!("HTTP/1.1 {status}\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno");
        bench.send_raw(&peer, head);
        let ConnectError::Refused { status: found, headers } = opening.take().unwrap_err() else {
            panic!("{status}")
        };
        assert!(status.starts_with(found.as_str()), "{status}");
        assert_eq!(headers["retry-after"], "7");
        let more = bench.sockets.next_connect();
        assert!(more.is_none(), "a redirect is the caller's decision");
    }
}

#[test]
fn w01_a_connection_that_ends_or_stalls_in_the_handshake_is_an_error() {
    let plain = WebSocketOptions::default();
    // Half of an answer.
    let mut bench = ClientBench::new(&plain);
    let request = bench.request();
    let opening = bench.start(request.connect());
    let (peer, request) = bench.accept();
    let answer = switched(&request, "");
    bench.send_raw(&peer, &answer[..answer.len() - 3]);
    peer.finish();
    bench.run();
    assert!(matches!(opening.take().unwrap_err(), ConnectError::Request(_)));
    bench.assert_nothing_left();
    // No answer, with a limit of this request, and with the client's.
    for (limit, expected) in [(Some(2 * SECOND), 2 * SECOND), (None, 30 * SECOND)] {
        let mut bench = ClientBench::new(&plain);
        let mut request = bench.connector.request(URL);
        if let Some(limit) = limit {
            request = request.timeout(limit);
        }
        let opening = bench.start(request.connect());
        let (peer, _) = bench.accept();
        bench.advance(expected - Duration::from_millis(10));
        assert!(!opening.is_done());
        bench.advance(Duration::from_millis(20));
        assert!(matches!(opening.take().unwrap_err(), ConnectError::Request(_)));
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }
    // No connection.
    let mut bench = ClientBench::new(&plain);
    let request = bench.request();
    let opening = bench.start(request.connect());
    bench.sockets.next_connect().unwrap().refuse(std::io::ErrorKind::ConnectionRefused);
    bench.run();
    assert!(matches!(opening.take().unwrap_err(), ConnectError::Request(_)));
    bench.assert_nothing_left();
}

#[test]
fn a06_a_connect_that_is_dropped_at_any_await_opens_nothing() {
    // Before the connect, before the answer, and with half of the answer.
    for step in 0..4 {
        let mut bench = ClientBench::new(&WebSocketOptions::default());
        let connector = bench.connector.clone();
        let opening = bench.start(async move { connector.connect(URL).await });
        let mut peer = None;
        if step > 0 {
            let (accepted, request) = bench.accept();
            let answer = switched(&request, "");
            let sent = [0, 0, 10, answer.len() - 1][step];
            if sent > 0 {
                bench.send_raw(&accepted, &answer[..sent]);
            }
            peer = Some(accepted);
        }
        assert!(!opening.is_done());
        opening.cancel(&mut bench);
        match peer {
            Some(peer) => assert!(peer.is_closed(), "{step}"),
            None => {
                let (peer, request) = bench.accept();
                assert_eq!(request, "", "the connect is the pool's, nothing is sent");
                drop(peer);
            }
        }
        bench.assert_nothing_left();
    }
}

#[test]
fn w01_frames_right_behind_the_answer_are_not_lost() {
    for is_split in [false, true] {
        let mut bench = ClientBench::new(&WebSocketOptions::default());
        let script = Script::silent();
        let (connector, handler) = (bench.connector.clone(), script.clone());
        let opening =
            bench.start(async move { connector.request(URL).connect_with(handler).await });
        let (peer, request) = bench.accept();
        let mut bytes = switched(&request, "").into_bytes();
        bytes.extend(frame(0x81, b"early", false));
        let late = frame(0x81, b"late", false);
        bytes.extend(&late[..3]);
        if is_split {
            let at = bytes.len() - 9;
            bench.send_raw(&peer, &bytes[..at]);
            bench.send_raw(&peer, &bytes[at..]);
        } else {
            bench.send_raw(&peer, bytes);
        }
        bench.send_raw(&peer, &late[3..]);
        let channel = opening.take().unwrap();
        assert_eq!(script.calls(), ["open", "text early", "text late"]);
        drop(channel.close());
        assert_eq!(bench.received(&peer), ["close 1000"]);
    }
}

#[test]
fn w05_the_end_right_behind_the_answer_is_a_loss() {
    for frames in [&b""[..], b"\x81\x01x"] {
        let mut bench = ClientBench::new(&WebSocketOptions::default());
        let script = Script::silent();
        let (connector, handler) = (bench.connector.clone(), script.clone());
        let opening =
            bench.start(async move { connector.request(URL).connect_with(handler).await });
        let (peer, request) = bench.accept();
        peer.send([switched(&request, "").as_bytes(), frames].concat());
        peer.finish();
        bench.run();
        drop(opening.take().unwrap());
        assert_eq!(script.calls().last().unwrap(), "closed: lost");
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }
}

#[test]
fn w01_a_pipeline_of_a_client_reads_and_writes_messages() {
    use std::sync::{Arc, Mutex};
    use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};

    struct Reader(Arc<Mutex<Vec<WebSocketMessage>>>);

    impl Handler for Reader {
        fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
            self.0.lock().unwrap().push(msg.take::<WebSocketMessage>().unwrap());
            Ok(())
        }
    }

    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let read = Arc::new(Mutex::new(Vec::new()));
    let (connector, reader) = (bench.connector.clone(), Reader(read.clone()));
    let opening = bench.start(async move {
        let pipeline = connector.request(URL);
        pipeline.connect_pipeline(|edit| Ok(edit.add_last("reader", reader).map(drop)?)).await
    });
    let (peer, request) = bench.accept();
    bench.send_raw(&peer, switched(&request, ""));
    let channel = opening.take().unwrap();
    bench.send(&peer, 0x81, b"one");
    drop(channel.write_and_flush(WebSocketMessage::text("two")));
    assert_eq!(bench.received(&peer), ["text two"]);
    bench.send(&peer, 0x88, b"");
    assert_eq!(
        *read.lock().unwrap(),
        [WebSocketMessage::text("one"), WebSocketMessage::Close(None)]
    );
    assert_eq!(bench.received(&peer), ["close"]);
}
