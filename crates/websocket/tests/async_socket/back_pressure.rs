//! Nothing is read that nobody waits for; a message waits for room.

use waterwheel_websocket::WebSocketMessage;

use crate::connected;
use crate::support::frames::frame;

/// More than one read of the channel.
const FLOOD: usize = 1 << 20;

#[test]
fn a01_nothing_is_read_that_nobody_waits_for() {
    let (mut bench, peer, mut socket) = connected();
    for _ in 0..FLOOD / 1024 {
        bench.send(&peer, 0x82, [7; 1024]);
    }
    let unread = peer.unread();
    assert!(unread > FLOOD / 2, "{unread} of {FLOOD} bytes wait at the peer");
    bench.send(&peer, 0x89, b"behind them");
    assert!(bench.received(&peer).is_empty(), "a ping is answered when it is read");
    let read = bench.start(async move {
        let mut count = 0;
        while count < FLOOD / 1024 {
            assert_eq!(
                socket.next().await.unwrap().unwrap(),
                WebSocketMessage::binary(vec![7; 1024])
            );
            count += 1;
        }
        socket
    });
    bench.run();
    let mut socket = read.take();
    let waits = bench.start(async move { socket.next().await.is_none() });
    assert_eq!(bench.received(&peer), ["pong behind them"]);
    assert!(!waits.is_done());
}

#[test]
fn a01_a_message_waits_for_room() {
    let (mut bench, peer, mut socket) = connected();
    peer.set_limit(0);
    let sending = bench.start(async move {
        for size in [100_000, 10, 20] {
            socket.send(vec![0; size]).await.unwrap();
        }
        socket
    });
    assert!(!sending.is_done(), "the channel is full");
    let pending = bench.event_loop.event_loop().metrics();
    assert_eq!(pending.channels, 1);
    peer.set_limit(usize::MAX);
    assert_eq!(
        bench.received(&peer),
        [
            "binary [100000]",
            "binary \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00",
            &format!("binary {}", "\\x00".repeat(20))
        ]
    );
    drop(sending.take());
}

#[test]
fn a01_a_reader_that_stops_leaves_the_rest_to_the_next_call() {
    let (mut bench, peer, mut socket) = connected();
    let one = bench.start(async move { (socket.next().await.unwrap().unwrap(), socket) });
    let frames: Vec<_> = (0..10_u8).flat_map(|n| frame(0x82, &[n], false)).collect();
    bench.send_raw(&peer, frames);
    let (first, mut socket) = one.take();
    assert_eq!(first, WebSocketMessage::binary(vec![0]));
    for n in 1..10 {
        let next = bench.start(async move { (socket.next().await.unwrap().unwrap(), socket) });
        let (message, back) = next.take();
        assert_eq!(message, WebSocketMessage::binary(vec![n]));
        socket = back;
    }
}
