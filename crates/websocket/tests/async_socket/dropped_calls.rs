//! Calls that are dropped before they complete (A06).

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use waterwheel_websocket::{CloseCode, CloseOutcome, WebSocket, WebSocketMessage};

use crate::connected;
use crate::support::frames::close_payload;

/// A connection that several futures use one after the other.
type Shared = Rc<RefCell<WebSocket>>;

#[test]
fn a06_a_dropped_next_loses_no_message_of_a_connection() {
    let (mut bench, peer, socket) = connected();
    let socket: Shared = Rc::new(RefCell::new(socket));
    for round in 0..3_u8 {
        let waiting = socket.clone();
        #[allow(clippy::await_holding_refcell_ref, reason = "one future at a time")]
        let dropped = bench.start(async move { waiting.borrow_mut().next().await.is_some() });
        assert!(!dropped.is_done());
        dropped.cancel(&mut bench);
        bench.send(&peer, 0x82, [round]);
        let waiting = socket.clone();
        #[allow(clippy::await_holding_refcell_ref, reason = "one future at a time")]
        let read = bench.start(async move { waiting.borrow_mut().next().await.unwrap().unwrap() });
        assert_eq!(read.take(), WebSocketMessage::binary(vec![round]));
    }
}

#[test]
fn a06_a_send_that_is_dropped_while_it_waits_has_sent_nothing() {
    let (mut bench, peer, mut socket) = connected();
    peer.set_limit(0);
    let filled = bench.start(async move {
        socket.send(vec![0; 100_000]).await.unwrap();
        socket
    });
    let mut socket = filled.take();
    // The poll of a send that waits, and its drop, in one future.
    let dropped = bench.start(async move {
        {
            let mut sending = pin!(socket.send("never sent"));
            let is_pending =
                poll_fn(|context| Poll::Ready(sending.as_mut().poll(context).is_pending()));
            assert!(is_pending.await, "the channel is full");
        }
        socket
    });
    let mut socket = dropped.take();
    peer.set_limit(usize::MAX);
    let sent = bench.start(async move {
        socket.send("sent").await.unwrap();
        socket
    });
    assert_eq!(bench.received(&peer), ["binary [100000]", "text sent"]);
    drop(sent.take());
}

#[test]
fn a06_a_close_that_is_dropped_has_sent_its_close_and_can_be_repeated() {
    let (mut bench, peer, socket) = connected();
    let socket: Shared = Rc::new(RefCell::new(socket));
    for _ in 0..3 {
        let closing = socket.clone();
        #[allow(clippy::await_holding_refcell_ref, reason = "one future at a time")]
        let dropped =
            bench.start(async move { closing.borrow_mut().close(CloseCode::NORMAL).await });
        assert!(!dropped.is_done());
        dropped.cancel(&mut bench);
    }
    assert_eq!(bench.received(&peer), ["close 1000"], "one Close");
    let closing = socket.clone();
    #[allow(clippy::await_holding_refcell_ref, reason = "one future at a time")]
    let closed = bench.start(async move { closing.borrow_mut().close(CloseCode::NORMAL).await });
    bench.send(&peer, 0x88, close_payload(1000, ""));
    assert_eq!(closed.take(), CloseOutcome::Received(Some(CloseCode::NORMAL.into())));
}
