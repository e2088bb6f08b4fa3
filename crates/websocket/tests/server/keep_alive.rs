//! Keep-alive, on the manual clock.

use std::time::Duration;

use waterwheel_websocket::{WebSocketMessage, WebSocketOptions};

use crate::support::frames::frame;
use crate::support::loop_bench::SECOND;
use crate::support::script::Script;
use crate::support::server_bench::ServerBench;

fn bench() -> ServerBench {
    let options = WebSocketOptions::builder()
        .ping_interval(10 * SECOND)
        .pong_timeout(4 * SECOND)
        .build()
        .unwrap();
    let mut bench = ServerBench::new(&options, Script::silent());
    drop(bench.script.log.take());
    assert!(bench.received().is_empty());
    bench
}

#[test]
fn w05_a_silent_peer_is_pinged_and_an_answer_keeps_it() {
    let mut bench = bench();
    for _ in 0..5 {
        bench.advance(10 * SECOND - Duration::from_nanos(1));
        assert!(bench.received().is_empty());
        bench.advance(Duration::from_nanos(1));
        assert_eq!(bench.received(), ["ping "]);
        bench.send(0x8a, b"");
        bench.advance(4 * SECOND);
        assert!(bench.received().is_empty());
        bench.advance(6 * SECOND);
        assert_eq!(bench.received(), ["ping "]);
        bench.advance(3 * SECOND);
        // Any byte counts: half a frame.
        bench.send_raw(&frame(0x81, b"hello", true)[..3]);
        bench.advance(SECOND);
        bench.send_raw(&frame(0x81, b"hello", true)[3..]);
        assert_eq!(bench.calls(), ["text hello"]);
    }
    assert!(!bench.peer.is_closed());
}

#[test]
fn w05_a_peer_that_sends_is_not_pinged() {
    let mut bench = bench();
    for _ in 0..20 {
        bench.advance(9 * SECOND);
        bench.send_text("x");
    }
    assert!(bench.received().is_empty());
}

#[test]
fn w05_a_peer_that_does_not_answer_a_ping_is_lost() {
    let mut bench = bench();
    bench.advance(10 * SECOND);
    assert_eq!(bench.received(), ["ping "]);
    bench.advance(4 * SECOND - Duration::from_nanos(1));
    assert!(!bench.peer.is_closed());
    bench.advance(Duration::from_nanos(1));
    assert_eq!(bench.calls(), ["closed: lost"]);
    bench.assert_gone();
    assert_eq!(bench.faults.take(), [""; 0], "a peer that is gone is no line in the log");
    let cause = bench.channel().close_cause().unwrap().to_string();
    assert_eq!(cause, "the peer has sent nothing for 4s after a ping");
}

#[test]
fn w05_a_peer_that_takes_nothing_is_lost() {
    let mut bench = bench();
    bench.peer.set_limit(1_000);
    drop(bench.channel().write_and_flush(WebSocketMessage::binary(vec![0; 100_000])));
    bench.advance(10 * SECOND);
    bench.advance(4 * SECOND);
    assert_eq!(bench.calls(), ["closed: lost"]);
    bench.assert_gone();
}

#[test]
fn w05_a_peer_that_takes_slowly_is_alive() {
    let mut bench = bench();
    bench.peer.set_limit(1_000);
    drop(bench.channel().write_and_flush(WebSocketMessage::binary(vec![0; 20_000])));
    bench.run();
    for _ in 0..18 {
        bench.advance(3 * SECOND);
        assert_eq!(bench.peer.take_received().len(), 1_000);
        bench.run();
        assert!(!bench.peer.is_closed());
    }
}

#[test]
fn w05_keep_alive_may_be_off() {
    let options = WebSocketOptions::builder().ping_interval(Duration::MAX).build().unwrap();
    let mut bench = ServerBench::new(&options, Script::silent());
    bench.advance(1_000_000 * SECOND);
    assert!(bench.received().is_empty());
    assert_eq!(bench.event_loop.event_loop().metrics().timers, 0);
    assert!(bench.channel().is_open());
}

#[test]
fn w05_the_defaults_are_those_of_the_guide() {
    let mut bench = ServerBench::new(&WebSocketOptions::default(), Script::silent());
    bench.advance(30 * SECOND);
    assert_eq!(bench.received(), ["ping "]);
    bench.advance(20 * SECOND);
    assert_eq!(bench.calls(), ["open", "closed: lost"]);
}

#[test]
fn w05_a_ping_while_the_connection_closes_is_not_sent() {
    let options = WebSocketOptions::builder()
        .ping_interval(SECOND)
        .close_timeout(10 * SECOND)
        .build()
        .unwrap();
    let mut bench = ServerBench::new(&options, Script::silent());
    drop(bench.channel().close());
    assert_eq!(bench.received(), ["close 1000"]);
    bench.advance(5 * SECOND);
    assert!(bench.received().is_empty());
    bench.advance(5 * SECOND);
    bench.assert_gone();
}
