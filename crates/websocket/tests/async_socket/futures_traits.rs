//! `Stream` and `Sink` of the futures crates.

use futures_util::{SinkExt, StreamExt};
use waterwheel_websocket::{CloseOutcome, ProtocolError, WebSocketMessage};

use crate::connected;
use crate::support::frames::{close_payload, frame};

#[test]
fn a01_a_connection_is_a_stream_and_a_sink() {
    let (mut bench, peer, mut socket) = connected();
    let talk = bench.start(async move {
        SinkExt::feed(&mut socket, "one".into()).await.unwrap();
        SinkExt::send(&mut socket, "two".into()).await.unwrap();
        let items: Vec<_> = StreamExt::by_ref(&mut socket).collect().await;
        assert!(StreamExt::next(&mut socket).await.is_none());
        (items, socket)
    });
    assert_eq!(bench.received(&peer), ["text one", "text two"]);
    bench.send_raw(&peer, [frame(0x81, b"a", false), frame(0x81, b"b", false)].concat());
    bench.send(&peer, 0x88, close_payload(1000, ""));
    let (items, socket) = talk.take();
    let texts: Vec<_> = items.into_iter().map(Result::unwrap).collect();
    assert_eq!(texts, [WebSocketMessage::text("a"), WebSocketMessage::text("b")]);
    assert!(matches!(socket.outcome(), Some(CloseOutcome::Received(Some(_)))));
}

#[test]
fn a01_the_halves_are_a_stream_and_a_sink() {
    let (mut bench, peer, socket) = connected();
    let (mut reader, mut writer) = socket.split();
    let talk = bench.start(async move {
        let first = StreamExt::next(&mut reader).await.unwrap();
        SinkExt::send(&mut writer, first.unwrap()).await.unwrap();
        SinkExt::close(&mut writer).await.unwrap();
        let error = StreamExt::next(&mut reader).await.unwrap().unwrap_err();
        assert!(StreamExt::next(&mut reader).await.is_none());
        (error, reader.outcome().cloned(), writer)
    });
    bench.send(&peer, 0x82, b"bytes");
    assert_eq!(bench.received(&peer), ["binary bytes"], "closing a sink flushes");
    bench.send(&peer, 0x80, b"");
    peer.finish();
    bench.run();
    let (error, outcome, _writer) = talk.take();
    let violation = ProtocolError::UnexpectedContinuation;
    assert_eq!(error.find::<ProtocolError>(), Some(&violation));
    assert_eq!(outcome, Some(CloseOutcome::Failed(violation)));
}

#[test]
fn a01_a_sink_waits_for_room() {
    let (mut bench, peer, mut socket) = connected();
    peer.set_limit(0);
    let sending = bench.start(async move {
        for _ in 0..3 {
            SinkExt::send(&mut socket, vec![0; 100_000].into()).await.unwrap();
        }
        socket
    });
    assert!(!sending.is_done());
    peer.set_limit(usize::MAX);
    assert_eq!(bench.received(&peer), ["binary [100000]"; 3]);
    drop(sending.take());
}
