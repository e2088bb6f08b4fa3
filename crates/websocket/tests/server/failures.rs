//! Handlers that fail.

use std::time::Duration;

use waterwheel_channel::HandlerResult;
use waterwheel_executor::Error;
use waterwheel_websocket::{
    WebSocketContext, WebSocketHandler, WebSocketMessage, WebSocketOptions,
};

use crate::support::script::Script;
use crate::support::server_bench::ServerBench;

/// Lets each method of a handler fail; returns the connection after that.
fn failing(at: &'static str, fail: fn() -> Result<(), Error>) -> ServerBench {
    let script = Script::new(move |socket, line| {
        if line == "open" {
            socket.schedule(Duration::from_millis(1), 1);
        }
        if line == at { fail() } else { Ok(()) }
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    match at {
        "open" => {}
        "timer 1" => bench.advance(Duration::from_millis(1)),
        "event String" => bench.channel().fire_user_event(String::new()),
        "writable false" => {
            bench.peer.set_limit(0);
            let message = waterwheel_websocket::WebSocketMessage::binary(vec![0; 70_000]);
            drop(bench.channel().write_and_flush(message));
            bench.run();
            bench.peer.set_limit(usize::MAX);
        }
        _ => bench.send_text("go"),
    }
    bench.run();
    bench
}

const METHODS: [&str; 6] =
    ["open", "text go", "complete", "timer 1", "event String", "writable false"];

#[test]
fn w02_an_error_of_any_method_is_reported_and_closes_with_1011() {
    for at in METHODS {
        let mut bench = failing(at, || Err(Error::new("the table is full")));
        let mut received = bench.received();
        assert_eq!(received.pop().as_deref(), Some("close 1011"), "{at}");
        let faults = bench.faults.take();
        assert_eq!(faults.len(), 1, "{at}: {faults:?}");
        assert!(faults[0].contains("the table is full"), "{at}: {faults:?}");
        let calls = bench.calls();
        assert_eq!(
            calls.iter().filter(|line| *line == "closed: lost").count(),
            1,
            "{at}: {calls:?}"
        );
        assert!(bench.peer.is_ended() && !bench.peer.is_closed(), "{at}");
        bench.send_text("ignored");
        bench.send_close(1011);
        bench.finish();
        assert!(!bench.calls().iter().any(|line| line.starts_with("text")), "{at}");
        bench.assert_gone();
    }
}

#[test]
fn w02_a_panic_of_any_method_is_reported_and_closes_with_1011() {
    for at in METHODS {
        let mut bench = failing(at, || panic!("out of {}", "luck"));
        let received = bench.received();
        // A peer that takes nothing is not waited for.
        let told = if at == "writable false" { None } else { Some("close 1011") };
        assert_eq!(received.last().map(String::as_str), told, "{at}");
        let faults = bench.faults.take();
        assert_eq!(faults.len(), 1, "{at}: {faults:?}");
        assert!(faults[0].contains("out of luck"), "{at}: {faults:?}");
        bench.assert_gone();
    }
}

#[test]
fn w02_a_panic_of_on_error_is_reported_and_closes_with_1011() {
    struct Unlucky(Script);

    impl WebSocketHandler for Unlucky {
        fn on_open(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
            self.0.on_open(socket)
        }

        fn on_message(&mut self, _: &WebSocketContext<'_>, _: WebSocketMessage) -> HandlerResult {
            Ok(())
        }

        fn on_error(&mut self, _: &WebSocketContext<'_>, error: Error) {
            panic!("out of luck: {error}");
        }
    }

    let (options, script) = (WebSocketOptions::default(), Script::silent());
    let handler = script.clone();
    let mut bench = ServerBench::upgraded(
        &options,
        script,
        |bootstrap| bootstrap,
        move |upgrade| upgrade.handle(Unlucky(handler.clone())),
    );
    let pipeline = bench.channel();
    drop(pipeline.with_pipeline(|pipeline| pipeline.fire_error(Error::new("elsewhere"))));
    assert_eq!(bench.received(), ["close 1011"]);
    let faults = bench.faults.take();
    assert!(faults.len() == 1 && faults[0].contains("out of luck: elsewhere"), "{faults:?}");
    bench.assert_gone();
}

#[test]
fn w05_a_send_refused_while_closing_is_no_failure_of_the_handler() {
    let script = Script::new(|socket, line| {
        if line.starts_with("text") {
            socket.close(waterwheel_websocket::CloseCode::NORMAL);
            socket.send_text("x")?;
        }
        Ok(())
    });
    let mut bench = ServerBench::new(&WebSocketOptions::default(), script);
    bench.send_text("go");
    assert_eq!(bench.received(), ["close 1000"]);
    bench.send_close(1000);
    assert_eq!(bench.calls(), ["open", "text go", "closed: received 1000"]);
    assert_eq!(bench.faults.take(), [""; 0]);
}
