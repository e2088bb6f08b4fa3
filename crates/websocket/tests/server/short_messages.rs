//! Messages that a handler gets by reference (W02, W07).

use waterwheel_channel::{ChannelGroup, HandlerResult};
use waterwheel_testkit::recorder::Log;
use waterwheel_websocket::{
    BroadcastMessage, ShortMessage, WebSocketContext, WebSocketHandler, WebSocketMessage,
    WebSocketOptions,
};

use crate::support::frames::frame;
use crate::support::script::Script;
use crate::support::server_bench::ServerBench;

/// Logs how each message comes, and echoes it.
#[derive(Clone)]
struct Echo(Log);

impl WebSocketHandler for Echo {
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        let (kind, len) = match &message {
            WebSocketMessage::Text(text) => ("text", text.len()),
            WebSocketMessage::Binary(bytes) => ("binary", bytes.len()),
            _ => ("other", 0),
        };
        self.0.push(format!("{kind} {len}"));
        Ok(socket.send(message)?)
    }

    fn on_short_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: ShortMessage<'_>,
    ) -> HandlerResult {
        let (kind, len) = match message {
            ShortMessage::Text(text) => ("text", text.len()),
            ShortMessage::Binary(bytes) => ("binary", bytes.len()),
        };
        self.0.push(format!("short {kind} {len}"));
        Ok(socket.send_short(message)?)
    }
}

fn bench() -> (ServerBench, Log) {
    let log = Log::new();
    let echo = Echo(log.clone());
    let bench = ServerBench::upgraded(
        &WebSocketOptions::default(),
        Script::silent(),
        |bootstrap| bootstrap,
        move |upgrade| upgrade.handle(echo.clone()),
    );
    (bench, log)
}

#[test]
fn w02_short_messages_come_by_reference_and_longer_or_cut_ones_as_values() {
    let (mut bench, log) = bench();
    for len in [0, 1, 7, 8, 9, 64, 125, 126, 128, 129, 1000] {
        for (first, kind) in [(0x81, "text"), (0x82, "binary")] {
            let payload: Vec<u8> = (b'a'..=b'z').cycle().take(len).collect();
            bench.send(first, &payload);
            let way = if len <= 128 { "short " } else { "" };
            assert_eq!(log.take(), [format!("{way}{kind} {len}")]);
            let echo = frame(first, &payload, false);
            assert_eq!(bench.received_raw(), echo, "{kind} {len}");
        }
    }
    let frame = frame(0x81, b"in two reads", true);
    bench.send_raw(&frame[..9]);
    bench.send_raw(&frame[9..]);
    bench.send(0x01, "in two ");
    bench.send(0x80, "frames");
    assert_eq!(log.take(), ["text 12", "text 13"]);
    assert_eq!(bench.received(), ["text in two reads", "text in two frames"]);
}

#[test]
fn w02_short_messages_and_others_keep_their_order() {
    let (mut bench, log) = bench();
    let round = [
        frame(0x81, b"one", true),
        frame(0x81, &[b'x'; 600], true),
        frame(0x82, b"three", true),
        frame(0x89, b"ping", true),
        frame(0x81, "vier \u{e4}".as_bytes(), true),
    ];
    bench.send_raw(round.concat());
    assert_eq!(log.take(), ["short text 3", "text 600", "short binary 5", "short text 7"]);
    let received = bench.received();
    assert_eq!(received.len(), 5);
    assert_eq!((&*received[0], &*received[2]), ("text one", "binary three"));
    assert_eq!((&*received[3], &*received[4]), ("pong ping", "text vier \\xc3\\xa4"));
}

#[test]
fn w02_a_short_text_that_is_not_utf8_fails_with_1007() {
    let (mut bench, log) = bench();
    bench.send(0x81, b"\xc3\x28");
    assert_eq!(log.take(), [""; 0]);
    assert!(bench.received()[0].starts_with("close 1007"));
}

#[test]
fn w06_a_broadcast_goes_behind_what_its_member_has_sent_in_the_round() {
    let group = ChannelGroup::new("all");
    let all = group.clone();
    let script = Script::new(move |socket, line| {
        match line {
            "open" => drop(all.add(&socket.channel())),
            "text go" => {
                socket.send_text("before")?;
                all.send(BroadcastMessage::text("broadcast"));
                socket.send_text("behind")?;
            }
            _ => {}
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.send_text("go");
    assert_eq!(bench.received(), ["text before", "text broadcast", "text behind"]);
    group.send(BroadcastMessage::binary("outside"));
    assert_eq!(bench.received(), ["binary outside"]);
}

#[test]
fn w06_a_broadcast_to_a_member_that_closes_is_dropped() {
    let group = ChannelGroup::new("all");
    let all = group.clone();
    let script = Script::new(move |socket, line| {
        if line == "open" {
            all.add(&socket.channel());
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    drop(bench.channel().close());
    group.send(BroadcastMessage::text("late"));
    assert_eq!(bench.received(), ["close 1000"]);
    assert!(bench.faults.take().is_empty(), "a member that closes is no fault");
}
