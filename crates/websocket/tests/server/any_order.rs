//! Events of a peer, of this side and of the loop in any order (W05).

use std::time::Duration;

use waterwheel_channel::DrainOptions;
use waterwheel_executor::Error;
use waterwheel_websocket::{CloseCode, WebSocketMessage, WebSocketOptions};

use crate::support::frames::{close_payload, frame};
use crate::support::loop_bench::SECOND;
use crate::support::script::Script;
use crate::support::server_bench::ServerBench;

/// Numbers that look random, the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }
}

/// Echoes texts; does what some of them say.
fn obedient() -> Script {
    Script::new(|socket, line| {
        match line {
            "text close" => socket.close(CloseCode::GOING_AWAY),
            "text channel" => drop(socket.channel().close()),
            "text fill" => socket.send_binary(&[0; 70_000])?,
            "text fail" => return Err(Error::new("as told")),
            "timer 1" => socket.send_text("tick")?,
            "text timer" => drop(socket.schedule(Duration::from_millis(1_500), 1)),
            line if line.starts_with("closed") => drop(socket.send_text("bye")),
            line if line.starts_with("text ") => socket.send_text(&line[5..])?,
            _ => {}
        }
        Ok(())
    })
}

/// Lets one event happen; returns its name.
fn step(bench: &mut ServerBench, numbers: &mut Numbers) -> &'static str {
    let text = |text: &str| frame(0x81, text.as_bytes(), true);
    let close = || frame(0x88, &close_payload(1000, ""), true);
    match numbers.below(22) {
        0 => (bench.send_text("close"), "a close of the handler").1,
        1 => (bench.send_text("channel"), "a close of the channel in a call").1,
        2 => (bench.send_text("fill"), "a long answer").1,
        3 if numbers.below(3) == 0 => (bench.send_text("fail"), "a failure").1,
        4 => (bench.send_text("timer"), "a timer").1,
        5 => (bench.send_raw([text("close"), text("x"), close()].concat()), "both closes").1,
        6 => (bench.send_raw(close()), "a Close").1,
        7 => (bench.send_raw([close(), close(), text("x")].concat()), "two Closes").1,
        8 => (bench.send(0x83, b""), "a violation").1,
        9 => (bench.send_raw(&text("half")[..5]), "half a frame").1,
        10 => (bench.finish(), "the end of the data").1,
        11 => {
            bench.peer.reset();
            bench.run();
            "a reset"
        }
        12 => (drop(bench.channel().close()), "a close of the channel").1,
        13 => {
            let close = WebSocketMessage::Close(Some(CloseCode::NORMAL.into()));
            (bench.channel().send(close), "a written Close").1
        }
        14 => (drop(bench.channel().shutdown_output()), "the end of the output").1,
        15 => {
            let options = DrainOptions::within(20 * SECOND);
            (drop(bench.event_loop.event_loop().drain(options)), "a drain").1
        }
        16 => (bench.peer.set_limit(0), "a peer that does not read").1,
        17 => (bench.peer.set_limit(usize::MAX), "a peer that reads").1,
        18 => (bench.advance(SECOND), "a second").1,
        19 => (bench.advance(5 * SECOND), "five seconds").1,
        20 => (bench.send_ping("p"), "a ping").1,
        _ => (bench.send_text("hello"), "a text").1,
    }
}

#[test]
fn w05_any_order_of_events_ends_a_connection_once_and_in_order() {
    for seed in 0..1_000 {
        let mut numbers = Numbers(seed);
        let mut bench = ServerBench::new(&WebSocketOptions::default(), obedient());
        let (mut steps, mut received, mut log) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..numbers.below(10) {
            steps.push(step(&mut bench, &mut numbers));
            bench.run();
            log.extend(bench.script.log.take());
            if numbers.below(2) == 0 {
                received.extend(bench.received());
            }
        }
        bench.peer.set_limit(usize::MAX);
        drop(bench.channel().close());
        received.extend(bench.received());
        for _ in 0..3 {
            bench.advance(5 * SECOND);
            received.extend(bench.received());
        }
        log.extend(bench.script.log.take());
        let case = format!("seed {seed}: {steps:?}: {log:?}: {received:?}");
        assert!(bench.peer.is_closed(), "the connection has ended: {case}");
        let ends = log.iter().filter(|line| line.starts_with("closed")).count();
        assert_eq!(ends, 1, "on_close was called once: {case}");
        let end = log.iter().position(|line| line.starts_with("closed")).unwrap();
        let is_late = |line: &String| line.starts_with("text") || *line == "complete";
        assert!(!log[end..].iter().any(is_late), "nothing comes after on_close: {case}");
        if let Some(close) = received.iter().position(|line| line.starts_with("close")) {
            assert_eq!(close + 1, received.len(), "nothing follows the Close: {case}");
        }
        let faults = bench.faults.take();
        let may_fail = steps.contains(&"a failure");
        assert!(faults.is_empty() || may_fail, "{faults:?}: {case}");
        let metrics = bench.event_loop.event_loop().metrics();
        assert_eq!(metrics.timers, 0, "no timer is left: {case}");
    }
}
