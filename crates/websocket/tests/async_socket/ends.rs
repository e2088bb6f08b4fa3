//! How connections end: `next` returns `None`, and `outcome` tells why.

use waterwheel_executor::Error;
use waterwheel_testkit::manual::Peer;
use waterwheel_websocket::{CloseCode, CloseOutcome, CloseReason, ProtocolError, WebSocket};

use crate::connected;
use crate::support::client_bench::ClientBench;
use crate::support::frames::close_payload;
use crate::support::loop_bench::SECOND;

/// Reads to the end. Returns the errors, and how the connection has ended.
async fn read_to_end(mut socket: WebSocket) -> (Vec<Error>, Option<CloseOutcome>, WebSocket) {
    let mut errors = Vec::new();
    assert_eq!(socket.outcome(), None);
    while let Some(item) = socket.next().await {
        errors.extend(item.err());
    }
    assert!(socket.next().await.is_none(), "the end stays the end");
    let outcome = socket.outcome().cloned();
    (errors, outcome, socket)
}

/// Lets the peer end a connection. Returns the errors that were read, and how the connection has ended.
fn ended(
    end: impl FnOnce(&mut ClientBench, &Peer),
) -> (Vec<Error>, Option<CloseOutcome>, Vec<String>) {
    let (mut bench, peer, socket) = connected();
    let read = bench.start(read_to_end(socket));
    end(&mut bench, &peer);
    let received = bench.received(&peer);
    peer.finish();
    bench.run();
    let (errors, outcome, socket) = read.take();
    drop(socket);
    bench.run();
    assert!(peer.is_closed());
    assert!(bench.faults.take().is_empty());
    bench.assert_nothing_left();
    (errors, outcome, received)
}

#[test]
fn w05_the_close_of_the_peer_is_the_end() {
    let (errors, outcome, received) =
        ended(|bench, peer| bench.send(peer, 0x88, close_payload(1001, "restart")));
    assert!(errors.is_empty());
    let reason = CloseReason::new(CloseCode::GOING_AWAY, "restart");
    assert_eq!(outcome, Some(CloseOutcome::Received(Some(reason))));
    assert_eq!(received, ["close 1001"]);
}

#[test]
fn w05_a_violation_is_an_error_before_the_end() {
    let (errors, outcome, received) = ended(|bench, peer| bench.send(peer, 0x83, b""));
    let violation = ProtocolError::ReservedOpcode { opcode: 3 };
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].find::<ProtocolError>(), Some(&violation));
    assert_eq!(outcome, Some(CloseOutcome::Failed(violation)));
    assert_eq!(received.len(), 1);
    assert!(received[0].starts_with("close 1002"), "{received:?}");
}

#[test]
fn w05_the_end_of_the_data_without_a_close_is_a_loss_for_async_code() {
    let (errors, outcome, _) = ended(|_, _| {});
    assert!(errors.is_empty());
    assert_eq!(outcome, Some(CloseOutcome::Lost));
}

#[test]
fn w05_a_reset_is_a_loss_for_async_code() {
    let (_, outcome, _) = ended(|bench, peer| {
        peer.reset();
        bench.run();
    });
    assert_eq!(outcome, Some(CloseOutcome::Lost));
}

#[test]
fn w05_a_silent_peer_is_a_loss_for_async_code() {
    let (errors, outcome, received) = ended(|bench, _| {
        bench.advance(30 * SECOND);
        bench.advance(20 * SECOND);
    });
    assert_eq!(outcome, Some(CloseOutcome::Lost));
    assert_eq!(errors.len(), 1, "the cause: {errors:?}");
    assert_eq!(received, ["ping "]);
}

#[test]
fn w05_a_close_is_sent_and_waits_for_the_answer_while_messages_are_dropped() {
    let (mut bench, peer, mut socket) = connected();
    let closing = bench.start(async move {
        let outcome = socket.close(CloseReason::new(CloseCode::NORMAL, "done")).await;
        (outcome, socket)
    });
    assert_eq!(bench.received(&peer), ["close 1000 done"]);
    bench.send(&peer, 0x81, b"on its way");
    assert!(!closing.is_done());
    bench.send(&peer, 0x88, close_payload(1000, "done"));
    let (outcome, mut socket) = closing.take();
    let reason = CloseReason::new(CloseCode::NORMAL, "done");
    assert_eq!(outcome, CloseOutcome::Received(Some(reason)));
    let again = bench.start(async move { (socket.close(CloseCode::NORMAL).await, socket) });
    let (again, mut socket) = again.take();
    assert_eq!(again, outcome, "a second close only waits");
    let refused = bench.start(async move { (socket.send("late").await.unwrap_err(), socket) });
    let (refused, _socket) = refused.take();
    assert_eq!(refused.to_string(), "the output of the channel was shut down");
}

#[test]
fn w05_a_close_without_an_answer_gives_up() {
    let (mut bench, peer, mut socket) = connected();
    let closing = bench.start(async move { socket.close(CloseCode::NORMAL).await });
    bench.advance(5 * SECOND);
    assert_eq!(closing.take(), CloseOutcome::Lost);
    assert!(peer.is_closed());
}

#[test]
fn w05_a_dropped_connection_is_closed_in_order() {
    let (mut bench, peer, mut socket) = connected();
    let sent = bench.start(async move {
        socket.send("last words").await.unwrap();
        drop(socket);
    });
    sent.take();
    assert_eq!(bench.received(&peer), ["text last words", "close 1000"]);
    assert!(!peer.is_closed(), "the answer is waited for");
    bench.send(&peer, 0x81, b"for nobody");
    bench.send(&peer, 0x88, close_payload(1000, ""));
    peer.finish();
    bench.run();
    assert!(peer.is_closed());
    assert!(bench.faults.take().is_empty());
    bench.assert_nothing_left();
}

#[test]
fn w05_a_drain_is_told_to_async_code_and_closes_with_1001() {
    let (mut bench, peer, mut socket) = connected();
    let draining = socket.draining();
    let told = bench.start(draining);
    let read = bench.start(async move {
        let last = socket.next().await;
        assert!(matches!(last, Some(Ok(_))), "what was on its way: {last:?}");
        assert!(socket.next().await.is_none());
        socket.outcome().cloned()
    });
    assert!(!told.is_done());
    let drained = bench.event_loop.event_loop().drain(Default::default());
    assert_eq!(bench.received(&peer), ["close 1001"]);
    assert!(told.is_done());
    bench.send(&peer, 0x81, b"on its way");
    bench.send(&peer, 0x88, close_payload(1001, ""));
    peer.finish();
    bench.run();
    let reason = CloseReason::new(CloseCode::GOING_AWAY, "");
    assert_eq!(read.take(), Some(CloseOutcome::Received(Some(reason))));
    assert!(drained.try_get().is_some(), "the drain has ended with the connection");
}
