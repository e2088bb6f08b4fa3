//! The closing handshake: every row of the table "Closing" of `docs/WEBSOCKET.md`.

use std::time::Duration;

use waterwheel_channel::{DrainOptions, Drained};
use waterwheel_executor::Error;
use waterwheel_websocket::{CloseCode, CloseReason, WebSocketMessage, WebSocketOptions};

use crate::support::frames::{close_payload, frame};
use crate::support::loop_bench::SECOND;
use crate::support::script::Script;
use crate::support::server_bench::ServerBench;

fn silent() -> ServerBench {
    let bench = ServerBench::new(&WebSocketOptions::default(), Script::silent());
    assert_eq!(bench.calls(), ["open"]);
    bench
}

/// Closes with 4000 when it reads `close`, and echoes the rest.
fn closer() -> ServerBench {
    let script = Script::new(|socket, line| {
        match line.strip_prefix("text ") {
            Some("close") => socket.close(CloseReason::new(CloseCode::new(4000).unwrap(), "bye")),
            Some(text) if !socket.is_closing() => socket.send_text(text)?,
            _ => {}
        }
        Ok(())
    });
    let bench = ServerBench::new(&WebSocketOptions::default(), script);
    assert_eq!(bench.calls(), ["open"]);
    bench
}

#[test]
fn w05_a_close_is_answered_with_its_code_and_the_output_ends() {
    let mut bench = silent();
    bench.send(0x88, close_payload(1001, "gone"));
    assert_eq!(bench.calls(), ["closed: received 1001 \"gone\""]);
    assert_eq!(bench.received(), ["close 1001"]);
    assert!(bench.peer.is_ended() && !bench.peer.is_closed(), "the client ends its side");
    bench.finish();
    bench.assert_gone();
    assert!(bench.faults.take().is_empty());
}

#[test]
fn w05_a_close_without_a_code_is_answered_by_one_without_a_code() {
    let mut bench = silent();
    bench.send(0x88, b"");
    assert_eq!(bench.calls(), ["closed: received"]);
    assert_eq!(bench.received(), ["close"]);
}

#[test]
fn w05_messages_behind_a_close_of_this_side_are_still_read_until_the_answer() {
    let mut bench = closer();
    bench.send_text("close");
    assert_eq!(bench.received(), ["close 4000 bye"]);
    assert!(!bench.peer.is_ended(), "the output ends when the peer has answered");
    bench.send_text("on its way");
    bench.send_ping("x");
    bench.send_close(4000);
    assert_eq!(bench.calls(), ["text close", "text on its way", "closed: received 4000"]);
    assert!(bench.received().is_empty(), "no pong and no second Close");
    assert!(bench.peer.is_ended());
    bench.finish();
    bench.assert_gone();
}

#[test]
fn w05_both_sides_may_begin_at_once() {
    let mut bench = closer();
    bench.send_raw(
        [frame(0x81, b"close", true), frame(0x88, &close_payload(1000, ""), true)].concat(),
    );
    assert_eq!(bench.calls(), ["text close", "closed: received 1000"]);
    assert_eq!(bench.received(), ["close 4000 bye"], "one Close of each side");
    bench.finish();
    bench.assert_gone();
}

#[test]
fn w05_a_peer_that_does_not_answer_a_close_is_given_up() {
    let mut bench = closer();
    bench.send_text("close");
    bench.received();
    bench.advance(Duration::from_millis(4_999));
    assert!(!bench.peer.is_closed());
    bench.advance(Duration::from_millis(1));
    assert_eq!(bench.calls(), ["text close", "closed: lost"]);
    bench.assert_gone();
    assert!(bench.faults.take().is_empty());
}

#[test]
fn w05_a_peer_that_answers_but_does_not_end_is_given_up() {
    let options = WebSocketOptions::builder().close_timeout(2 * SECOND).build().unwrap();
    let mut bench = ServerBench::new(&options, Script::silent());
    bench.send_close(1000);
    bench.received();
    bench.advance(SECOND);
    bench.send_text("chatter");
    assert!(!bench.peer.is_closed());
    bench.advance(SECOND);
    assert_eq!(bench.calls(), ["open", "closed: received 1000"]);
    bench.assert_gone();
}

#[test]
fn w05_a_peer_that_stops_reading_before_the_close_is_given_up_after_one_limit() {
    let mut bench = closer();
    bench.send_text("something");
    bench.received();
    bench.peer.set_limit(0);
    bench.send_text("close");
    bench.advance(5 * SECOND);
    assert_eq!(bench.calls(), ["text something", "text close", "closed: lost"]);
    bench.assert_gone();
}

#[test]
fn w05_a_peer_that_still_takes_what_waits_for_it_has_more_time() {
    let script = Script::new(|socket, line| {
        if line == "text go" {
            socket.send(WebSocketMessage::binary(vec![0; 30_000]))?;
            socket.close(CloseCode::NORMAL);
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.peer.set_limit(5_000);
    bench.send_text("go");
    let mut received = 0;
    for _ in 0..5 {
        bench.advance(4 * SECOND);
        received += bench.peer.take_received().len();
        bench.run();
        bench.advance(SECOND);
        assert!(!bench.peer.is_closed(), "{received}");
    }
    bench.advance(5 * SECOND);
    bench.advance(5 * SECOND);
    assert_eq!(bench.calls(), ["open", "text go", "closed: lost"]);
    bench.assert_gone();
}

#[test]
fn w05_a_close_of_the_channel_is_a_closing_handshake() {
    let mut bench = silent();
    let closed = bench.channel().close();
    assert_eq!(bench.received(), ["close 1000"]);
    assert!(!closed.is_done(), "the close waits");
    let again = bench.channel().close();
    bench.send_close(1000);
    assert_eq!(bench.calls(), ["closed: received 1000"]);
    assert!(bench.received().is_empty());
    bench.finish();
    closed.join().unwrap();
    again.join().unwrap();
    bench.assert_gone();
    assert!(bench.faults.take().is_empty());
}

#[test]
fn w05_the_end_of_the_output_is_a_close() {
    let mut bench = silent();
    let ended = bench.channel().shutdown_output();
    assert_eq!(bench.received(), ["close 1000"]);
    ended.join().unwrap();
    bench.send_text("still read");
    bench.send_close(1000);
    bench.finish();
    assert_eq!(bench.calls(), ["text still read", "closed: received 1000"]);
    bench.assert_gone();
}

#[test]
fn w05_a_close_written_to_the_channel_begins_the_handshake_once() {
    let mut bench = silent();
    let reason = || WebSocketMessage::Close(Some(CloseReason::new(CloseCode::NORMAL, "done")));
    let first = bench.channel().write_and_flush(reason());
    let second = bench.channel().write_and_flush(reason());
    assert_eq!(bench.received(), ["close 1000 done"]);
    first.join().unwrap();
    second.join().unwrap_err();
}

#[test]
fn w05_a_drain_tells_the_peer_and_waits_for_the_handshake() {
    let mut bench = silent();
    let drained = bench.event_loop.event_loop().drain(DrainOptions::default());
    assert_eq!(bench.received(), ["close 1001"]);
    assert_eq!(bench.calls(), ["event Draining"]);
    assert!(drained.try_get().is_none(), "the drain waits");
    bench.send_text("on its way");
    bench.send_close(1001);
    assert_eq!(bench.calls(), ["text on its way", "closed: received 1001"]);
    assert!(drained.try_get().is_none(), "the drain waits for the end of the connection");
    bench.finish();
    assert_eq!(drained.try_get().unwrap().unwrap(), Drained::Complete);
    assert!(bench.peer.is_closed());
}

#[test]
fn w05_an_answer_that_a_drain_refuses_neither_fails_the_connection_nor_fills_the_log() {
    let mut bench = ServerBench::new(&WebSocketOptions::default(), Script::echo());
    let drained = bench.event_loop.event_loop().drain(DrainOptions::default());
    assert_eq!(bench.received(), ["close 1001"]);
    bench.send_text("on its way");
    assert!(!bench.peer.is_ended(), "the closing handshake goes on");
    bench.send_close(1001);
    bench.finish();
    let calls = ["open", "event Draining", "text on its way", "closed: received 1001"];
    assert_eq!(bench.calls(), calls);
    assert_eq!(bench.faults.take(), [""; 0]);
    assert_eq!(drained.try_get().unwrap().unwrap(), Drained::Complete);
}

#[test]
fn w05_a_drain_is_bounded_by_the_time_for_the_close() {
    let mut bench = silent();
    let options = DrainOptions::within(60 * SECOND);
    let drained = bench.event_loop.event_loop().drain(options);
    bench.run();
    bench.advance(5 * SECOND);
    assert_eq!(drained.try_get().unwrap().unwrap(), Drained::Complete);
    assert_eq!(bench.calls(), ["event Draining", "closed: lost"]);
    assert!(bench.peer.is_closed());
}

#[test]
fn w05_the_end_of_the_data_without_a_close_is_a_loss() {
    let mut bench = silent();
    bench.finish();
    assert_eq!(bench.calls(), ["closed: lost"]);
    assert!(bench.received().is_empty());
    bench.assert_gone();
    assert!(bench.faults.take().is_empty());
}

#[test]
fn w05_a_reset_is_a_loss_and_no_line_in_the_log() {
    let mut bench = silent();
    bench.peer.reset();
    bench.run();
    assert_eq!(bench.calls().last().unwrap(), "closed: lost");
    bench.assert_gone();
    assert!(bench.faults.take().is_empty());
}

#[test]
fn w05_an_error_behind_the_close_of_the_peer_is_no_line_in_the_log() {
    for is_behind in [false, true] {
        let mut bench = silent();
        if is_behind {
            bench.send_close(1000);
        }
        let fired = bench.channel().with_pipeline(|pipeline| {
            pipeline.fire_error(Error::new("TLS ended without close_notify"));
        });
        bench.run();
        fired.join().unwrap();
        assert_eq!(bench.faults.take().len(), usize::from(!is_behind));
        bench.finish();
        bench.assert_gone();
    }
}

#[test]
fn w05_a_violation_is_told_with_its_code_before_the_end_and_the_rest_is_dropped() {
    let masked = |first: u8, payload: &[u8]| frame(first, payload, true);
    let too_big = {
        let mut head = vec![0x82, 0xff];
        head.extend(2_000_000u64.to_be_bytes());
        head.extend([0; 4]);
        head
    };
    let cases: [(&str, Vec<u8>, &str); 17] = [
        ("no mask", frame(0x81, b"x", false), "1002"),
        ("reserved bit", masked(0xc1, b"x"), "1002"),
        ("reserved opcode", masked(0x83, b"x"), "1002"),
        ("reserved control opcode", masked(0x8b, b"x"), "1002"),
        ("fragmented ping", masked(0x09, b"x"), "1002"),
        ("long ping", masked(0x89, &[0; 126]), "1002"),
        ("length of 16 bits for 5", vec![0x81, 0xfe, 0, 5, 1, 2, 3, 4], "1002"),
        (
            "length of 64 bits for 300",
            [&[0x81, 0xff][..], &300u64.to_be_bytes(), &[0; 4]].concat(),
            "1002",
        ),
        ("length with the highest bit", [&[0x81, 0xff][..], &[0xff; 8], &[0; 4]].concat(), "1002"),
        ("continuation of nothing", masked(0x80, b"x"), "1002"),
        ("message inside of another", [masked(0x01, b"x"), masked(0x81, b"y")].concat(), "1002"),
        ("half a code", masked(0x88, b"x"), "1002"),
        ("code that may not be sent", masked(0x88, &close_payload(1005, "")), "1002"),
        ("reason that is no text", masked(0x88, b"\x03\xe8\xff"), "1007"),
        ("text that is no text", masked(0x01, b"ab\xff"), "1007"),
        ("message beyond the limit", too_big, "1009"),
        (
            "fragments beyond the limit",
            [masked(0x02, &vec![0; 700_000]), masked(0x80, &vec![0; 700_000])].concat(),
            "1009",
        ),
    ];
    for (name, bytes, code) in cases {
        let mut bench = silent();
        bench.send_raw([masked(0x81, b"before"), bytes].concat());
        let calls = bench.calls();
        assert_eq!(calls.len(), 2, "{name}: {calls:?}");
        assert_eq!(calls[0], "text before", "{name}");
        assert!(calls[1].starts_with("closed: failed: "), "{name}: {calls:?}");
        let received = bench.received();
        assert_eq!(received.len(), 1, "{name}: {received:?}");
        assert!(received[0].starts_with(&format!("close {code} ")), "{name}: {received:?}");
        assert!(bench.peer.is_ended(), "{name}: the peer reads the end");
        // A close with unread data would reset the connection, and the Close could be lost.
        for _ in 0..5 {
            bench.send_text(&"x".repeat(10_000));
            assert!(!bench.peer.is_closed(), "{name}");
            assert_eq!(bench.peer.unread(), 0, "{name}: the rest is read");
        }
        bench.finish();
        assert!(bench.calls().is_empty(), "{name}");
        bench.assert_gone();
        assert!(bench.faults.take().is_empty(), "{name}");
    }
}

#[test]
fn w05_a_violation_after_a_close_of_this_side_ends_the_connection() {
    let mut bench = closer();
    bench.send_text("close");
    bench.send(0x83, b"");
    let calls = bench.calls();
    assert_eq!(calls.len(), 2);
    assert!(calls[1].starts_with("closed: failed: "), "{calls:?}");
    assert_eq!(bench.received(), ["close 4000 bye"], "its Close was sent before");
    assert!(bench.peer.is_ended());
    bench.advance(5 * SECOND);
    bench.assert_gone();
}

#[test]
fn w05_a_handler_says_good_bye_in_on_close() {
    let script = Script::new(|socket, line| {
        if line.starts_with("closed") {
            let _ = socket.send_text("good bye");
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.send_close(1000);
    assert_eq!(bench.received(), ["text good bye", "close 1000"]);
}

#[test]
fn r04_messages_to_a_connection_that_its_peer_closes_are_no_lines_in_the_log() {
    let mut bench = silent();
    let group = waterwheel_channel::ChannelGroup::new("room");
    group.add(&bench.channel());
    bench.send_close(1000);
    for _ in 0..100 {
        group.send(waterwheel_websocket::BroadcastMessage::text("news"));
        group.send(WebSocketMessage::Close(Some(CloseCode::GOING_AWAY.into())));
        bench.run();
    }
    assert!(bench.faults.take().is_empty(), "the peer could fill the log");
    assert_eq!(bench.received(), ["close 1000"]);
}
