//! The two halves of a connection.

use waterwheel_websocket::{CloseCode, CloseOutcome, WebSocketMessage};

use crate::connected;
use crate::support::frames::close_payload;

#[test]
fn a01_one_future_reads_while_another_writes() {
    let (mut bench, peer, socket) = connected();
    let (mut reader, mut writer) = socket.split();
    assert_eq!(reader.channel().id(), writer.channel().id());
    let reading = bench.start(async move { (reader.next().await.unwrap().unwrap(), reader) });
    let writing = bench.start(async move {
        writer.feed("one").await.unwrap();
        writer.send("two").await.unwrap();
        writer
    });
    assert_eq!(bench.received(&peer), ["text one", "text two"]);
    assert!(!reading.is_done());
    bench.send(&peer, 0x81, b"hello");
    let (message, mut reader) = reading.take();
    assert_eq!(message, WebSocketMessage::text("hello"));

    drop(writing.take());
    assert_eq!(bench.received(&peer), ["close 1000"], "the writer was dropped");
    let to_end = bench.start(async move {
        let last = reader.next().await.unwrap().unwrap();
        assert!(reader.next().await.is_none());
        (last, reader.outcome().cloned())
    });
    bench.send(&peer, 0x81, b"on its way");
    bench.send(&peer, 0x88, close_payload(1000, ""));
    let outcome = CloseOutcome::Received(Some(CloseCode::NORMAL.into()));
    assert_eq!(to_end.take(), (WebSocketMessage::text("on its way"), Some(outcome)));
    peer.finish();
    bench.run();
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn w05_a_writer_closes_by_a_message_and_sends_nothing_behind_it() {
    let (mut bench, peer, socket) = connected();
    let (mut reader, mut writer) = socket.split();
    let closed = bench.start(async move {
        writer.send(WebSocketMessage::Close(Some(CloseCode::GOING_AWAY.into()))).await.unwrap();
        assert!(writer.send("late").await.is_err());
        assert!(reader.next().await.is_none());
        reader.outcome().cloned()
    });
    assert_eq!(bench.received(&peer), ["close 1001"]);
    bench.send(&peer, 0x88, close_payload(1001, ""));
    let outcome = CloseOutcome::Received(Some(CloseCode::GOING_AWAY.into()));
    assert_eq!(closed.take(), Some(outcome));
}
