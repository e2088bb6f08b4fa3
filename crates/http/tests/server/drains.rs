//! Drains of a loop with connections.

use std::time::Duration;

use waterwheel_channel::{DrainOptions, Drained, Draining, Msg};
use waterwheel_http::{Body, HttpServer, Request};

use crate::bench::Bench;
use crate::parts::{DropCount, Gate, Script, Step, assert_over, echo_path, gated, get, ok, post};

const SECOND: Duration = Duration::from_secs(1);

/// Begins a drain, as the loop would.
fn drain(bench: &mut Bench) {
    bench.channel.fire_user_event(Msg::new(Draining { deadline: bench.channel.now() }));
    bench.channel.run();
}

#[test]
fn h12_a_drain_closes_idle_connections_and_those_with_half_a_head_at_once() {
    for sent in ["", "GET / HT"] {
        let mut bench = Bench::new(echo_path);
        bench.send(sent);
        drain(&mut bench);
        assert_eq!((bench.is_open(), bench.received()), (false, String::new()));
    }
}

#[test]
fn h12_a_drain_answers_what_is_in_flight_and_begins_nothing_behind_it() {
    let (gate, drops) = (Gate::default(), DropCount::default());
    let (served, dropped) = (gate.clone(), drops.clone());
    let server = HttpServer::builder(move |request: Request| {
        let (gate, guard) = (served.clone(), dropped.guard());
        async move {
            let _guard = guard;
            gate.pass().await;
            request.uri().path().to_owned()
        }
    })
    .max_pipelined(2)
    .build()
    .unwrap();
    let mut bench = Bench::of(&server);
    bench.send([get("/a"), get("/b"), get("/c")].concat());
    drain(&mut bench);
    assert!(bench.is_open());
    gate.open();
    bench.channel.run();
    assert_eq!(bench.received(), ok("/a"));
    gate.open();
    bench.channel.run();
    assert_eq!(
        bench.received(),
        ok("/b").replace("content-length", "connection: close\r\ncontent-length")
    );
    bench.finish();
    assert!(!bench.is_open());
    assert_over(&server, 2);
    assert_eq!(drops.get(), 2, "the third was never begun");
}

#[test]
fn h12_a_drain_lets_a_streamed_answer_and_a_half_read_request_end() {
    let gate = Gate::default();
    let served = gate.clone();
    let server = HttpServer::builder(move |_: Request| {
        let steps = [Step::Chunk("ab"), Step::Wait(served.clone()), Step::Chunk("cd")];
        async move { Body::from_source(Script::new(steps)) }
    })
    .build()
    .unwrap();
    let mut bench = Bench::of(&server);
    assert!(bench.send(get("/")).ends_with("2\r\nab\r\n"));
    drain(&mut bench);
    assert!(bench.is_open());
    gate.open();
    bench.channel.run();
    assert_eq!(bench.received(), "2\r\ncd\r\n0\r\n\r\n");
    bench.finish();
    assert!(!bench.is_open());

    let mut bench = Bench::new(async |request: Request| request.into_body().collect(10).await);
    bench.send(format!("{}ab", post("/", "Content-Length: 4\r\n")));
    drain(&mut bench);
    let answer = bench.send("cd");
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("abcd"), "{answer}");
}

#[test]
fn h12_a_loop_that_drains_waits_for_what_is_in_flight() {
    let gate = Gate::default();
    let server = gated(&gate, &DropCount::default());
    let mut bench = Bench::of(&server);
    bench.send([get("/a"), get("/b")].concat());
    let options = DrainOptions::within(100 * SECOND).shutdown(Duration::ZERO, SECOND).unwrap();
    let drained = bench.channel.channel().event_loop().drain(options);
    bench.advance(10 * SECOND);
    gate.open();
    bench.channel.run();
    assert!(drained.try_get().is_none());
    assert_eq!(bench.received(), ok("/a"));
    gate.open();
    bench.channel.run();
    assert!(bench.received().contains("connection: close\r\n"));
    bench.finish();
    assert_eq!(drained.try_get().unwrap().unwrap(), Drained::Complete);
    drop(bench);
    assert_over(&server, 2);
}
