//! Messages in both directions.

use waterwheel_websocket::{SendError, WebSocketMessage, WebSocketOptions};

use crate::connected;
use crate::support::client_bench::ClientBench;
use crate::support::frames::frame;

#[test]
fn w02_messages_come_in_order() {
    let (mut bench, peer, mut socket) = connected();
    let read = bench.start(async move {
        let first = socket.next().await.unwrap().unwrap();
        let second = socket.next().await.unwrap().unwrap();
        (first, second, socket)
    });
    bench.send_raw(&peer, [frame(0x81, b"one", false), frame(0x82, b"two", false)].concat());
    let (first, second, _socket) = read.take();
    assert_eq!(first, WebSocketMessage::text("one"));
    assert_eq!(second, WebSocketMessage::binary(&b"two"[..]));
}

#[test]
fn w02_control_frames_are_answered_and_passed_on_if_asked_for() {
    for passes in [false, true] {
        let options = WebSocketOptions::builder().pass_control(passes).build().unwrap();
        let mut bench = ClientBench::new(&options);
        let (peer, mut socket) = bench.open();
        let read = bench.start(async move {
            let next = socket.next().await.unwrap().unwrap();
            (next, socket)
        });
        bench.send_raw(&peer, [frame(0x89, b"a", false), frame(0x81, b"text", false)].concat());
        assert_eq!(bench.received(&peer), ["pong a"]);
        let expected = match passes {
            true => WebSocketMessage::Ping("a".into()),
            false => WebSocketMessage::text("text"),
        };
        assert_eq!(read.take().0, expected);
    }
}

#[test]
fn w02_a_message_is_sent_at_once_and_one_that_is_fed_with_the_flush() {
    let (mut bench, peer, mut socket) = connected();
    let fed = bench.start(async move {
        socket.feed("one").await.unwrap();
        socket.feed(vec![2]).await.unwrap();
        socket
    });
    let mut socket = fed.take();
    assert!(bench.received(&peer).is_empty(), "no flush");
    let flushed = bench.start(async move {
        socket.flush().await.unwrap();
        socket
    });
    assert_eq!(bench.received(&peer), ["text one", "binary \\x02"]);
    let mut socket = flushed.take();
    let sent = bench.start(async move {
        socket.send("three").await.unwrap();
        socket
    });
    assert_eq!(bench.received(&peer), ["text three"]);
    drop(sent.take());
}

#[test]
fn w02_a_message_that_may_not_be_sent_is_an_error() {
    let (mut bench, peer, mut socket) = connected();
    let sent = bench.start(async move {
        let ping = WebSocketMessage::Ping(vec![0; 126].into());
        let error = socket.send(ping).await.unwrap_err();
        socket.send("still open").await.unwrap();
        (error, socket)
    });
    let (error, _socket) = sent.take();
    assert_eq!(error.find::<SendError>(), Some(&SendError::ControlTooLong { len: 126 }));
    assert_eq!(bench.received(&peer), ["text still open"]);
}
