//! Time limits: idle connections, late heads, clients that do not read.

use std::time::Duration;

use waterwheel_channel::sleep;
use waterwheel_http::{Body, HttpServer, Request};

use crate::bench::Bench;
use crate::parts::{DropCount, Gate, Script, Step, assert_over, echo_path, gated, get, ok};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn h05_an_idle_connection_ends_though_it_has_had_requests() {
    let mut bench = Bench::new(echo_path);
    bench.pass(10 * SECOND);
    for path in ["/a", "/b", "/c"] {
        assert_eq!(bench.send(get(path)), ok(path));
        bench.pass(40 * SECOND);
        assert!(bench.is_open());
    }
    assert_eq!(bench.send("\r\n\r\n"), "", "empty lines are no request");
    bench.pass(34 * SECOND);
    assert!(bench.is_open(), "74 s after the last request");
    bench.pass(2 * SECOND);
    assert!(!bench.is_open(), "76 s after it");
}

#[test]
fn h05_a_head_has_its_time_in_every_request() {
    let mut bench = Bench::new(echo_path);
    bench.send("GET ");
    for _ in 0..20 {
        assert_eq!(bench.pass(9 * SECOND), "");
        assert_eq!(bench.send("/a HTTP/1.1\r\nHost: a\r\n\r\nGET "), ok("/a"));
    }
    assert_eq!(bench.pass(9 * SECOND), "");
    let answer = bench.pass(2 * SECOND);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    bench.pass(6 * SECOND);
    assert!(!bench.is_open(), "after the linger time");
}

#[test]
fn h05_half_a_head_is_not_late_while_the_answer_before_it_is_read() {
    let mut bench = Bench::new(async |request: Request| match request.uri().path() {
        "/large" => {
            sleep(SECOND).await;
            "x".repeat(1_000_000)
        }
        path => path.to_owned(),
    });
    bench.channel.set_room(0);
    bench.send(format!("{}GET ", get("/large")));
    bench.advance(SECOND);
    for _ in 0..9 {
        bench.channel.set_room(100_000);
        assert!(bench.pass(11 * SECOND).len() > 50_000);
    }
    bench.channel.clear_faults();
    assert!(bench.send("/b HTTP/1.1\r\nHost: a\r\n\r\n").ends_with(&ok("/b")));
}

#[test]
fn h05_a_client_that_reads_nothing_is_closed_after_the_stall_time() {
    let mut bench = Bench::new(async |_: Request| vec![b'x'; 1_000_000]);
    bench.channel.set_room(0);
    bench.send(get("/"));
    bench.pass(29 * SECOND);
    assert!(bench.is_open());
    bench.pass(17 * SECOND);
    assert!(!bench.is_open(), "at most one and a half times the limit");
    assert!(bench.channel.channel().close_cause().unwrap().to_string().contains("read nothing"));
}

#[test]
fn h05_a_slow_reader_that_makes_progress_is_not_closed() {
    let mut bench = Bench::new(async |_: Request| vec![b'x'; 1_000]);
    bench.channel.set_room(0);
    bench.send(get("/").repeat(16));
    for _ in 0..20 {
        bench.channel.set_room(1);
        bench.pass(20 * SECOND);
        assert!(bench.is_open());
    }
}

#[test]
fn h05_output_that_nobody_reads_does_not_keep_a_closing_connection() {
    // The client has finished before the answer, or asks for the end; most of the answer never leaves.
    let close = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned();
    for (request, finishes) in [(get("/"), true), (close, false)] {
        for size in [1_000, 1_000_000] {
            let server = HttpServer::new(move |_: Request| async move {
                sleep(SECOND).await;
                vec![b'x'; size]
            });
            let mut bench = Bench::of(&server);
            bench.pass(40 * SECOND);
            bench.channel.set_room(10);
            bench.send(&request);
            if finishes {
                bench.finish();
            }
            bench.pass(61 * SECOND);
            assert!(!bench.is_open(), "finishes: {finishes}, size: {size}");
            assert_over(&server, 1);
        }
    }
}

#[test]
fn h05_an_answer_that_is_cut_off_does_not_wait_for_its_client() {
    let gate = Gate::default();
    let served = gate.clone();
    let server = HttpServer::builder(move |_: Request| {
        let steps = [Step::Chunk("abc"), Step::Wait(served.clone()), Step::Panic];
        async move { Body::from_source(Script::new(steps)) }
    })
    .build()
    .unwrap();
    let mut bench = Bench::of(&server);
    bench.channel.set_room(0);
    bench.send(get("/"));
    bench.pass(100 * SECOND);
    assert!(bench.is_open(), "little output waits, and the source is at work");
    gate.open();
    bench.pass(60 * SECOND);
    assert!(!bench.is_open());
    assert_over(&server, 1);
}

#[test]
fn h05_a_call_that_never_answers_keeps_its_connection() {
    let (gate, drops) = (Gate::default(), DropCount::default());
    let mut bench = Bench::of(&gated(&gate, &drops));
    bench.send(format!("{}GET /b", get("/a")));
    bench.pass(600 * SECOND);
    assert!(bench.is_open(), "only the service knows how long it takes");
    gate.open();
    bench.channel.run();
    assert_eq!(bench.received(), ok("/a"));
    assert!(bench.pass(11 * SECOND).starts_with("HTTP/1.1 408 "), "the second head is late now");
}
