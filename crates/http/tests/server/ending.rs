//! How connections and calls end: by the client, by the service, by time, by a drain.

use std::future::pending;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Channel, Ctx, Draining, HalfClosed, Handler, HandlerResult, Msg, sleep};
use waterwheel_executor::Error;
use waterwheel_http::{Body, HttpServer, Request, Response, upgrade_response};

use crate::bench::Bench;
use crate::parts::{DropCount, Gate, Script, Seen, Step, echo_path, get, ok, post};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a server whose calls wait for a gate, and count when they are dropped.
fn gated(gate: &Gate, drops: &DropCount) -> HttpServer {
    let (gate, drops) = (gate.clone(), drops.clone());
    let service = move |request: Request| {
        let (gate, drops) = (gate.clone(), drops.clone());
        async move {
            let _guard = drops.guard();
            gate.pass().await;
            request.uri().path().to_owned()
        }
    };
    HttpServer::builder(service).build().unwrap()
}

/// Asserts that nothing of a server is left over.
fn assert_over(server: &HttpServer, requests: u64) {
    let metrics = server.metrics();
    let counted = (metrics.requests, metrics.in_the_air, metrics.open_connections);
    assert_eq!(counted, (requests, 0, 0));
}

#[test]
fn h04_a_client_that_finishes_gets_every_answer() {
    let server = HttpServer::new(echo_path);
    let mut bench = Bench::of(&server);
    assert_eq!(bench.finish(), "");
    assert!(!bench.is_open(), "before a request");

    let gate = Gate::default();
    let server = gated(&gate, &DropCount::default());
    let mut bench = Bench::of(&server);
    bench.send([get("/a"), get("/b")].concat());
    assert_eq!(bench.finish(), "");
    assert!(bench.is_open());
    gate.open();
    gate.open();
    bench.channel.run();
    assert_eq!(bench.received(), [ok("/a"), ok("/b")].concat());
    assert!(!bench.is_open());
    drop(bench);
    assert_over(&server, 2);
}

#[test]
fn h03_a_client_that_finishes_within_a_head_gets_400() {
    let mut bench = Bench::new(echo_path);
    bench.send("GET / HTTP/1.1\r\n");
    assert!(bench.finish().starts_with("HTTP/1.1 400 "));
    assert!(!bench.is_open());
}

/// Passes on bytes in two parts, and the end of the input with them, whatever pauses there are: as TLS does with what a
/// read held.
struct EverythingAtOnce;

impl Handler for EverythingAtOnce {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.fire_read(msg);
        ctx.fire_user_event(HalfClosed::Input);
        Ok(())
    }
}

#[test]
fn h04_requests_that_were_read_are_answered_though_the_channel_has_no_room() {
    let service = async |_: Request| vec![b'x'; 100_000];
    let server = HttpServer::new(service);
    let mut bench = Bench::with_pipeline(|edit| {
        edit.add_last("at once", EverythingAtOnce)?;
        server.initialise(edit)
    });
    bench.channel.set_room(0);
    bench.send(get("/").repeat(5));
    assert!(bench.is_open());
    bench.channel.clear_faults();
    bench.channel.run();
    assert_eq!(bench.received().matches("HTTP/1.1 200 OK").count(), 5);
    assert!(!bench.is_open());
}

#[test]
fn h04_answers_written_in_the_round_of_the_end_are_sent() {
    let server = HttpServer::new(echo_path);
    let mut bench = Bench::with_pipeline(|edit| {
        edit.add_last("at once", EverythingAtOnce)?;
        server.initialise(edit)
    });
    assert_eq!(bench.send([get("/a"), get("/b")].concat()), [ok("/a"), ok("/b")].concat());
    assert!(!bench.is_open());
}

#[test]
fn h07_a_reset_drops_the_calls() {
    let (gate, drops) = (Gate::default(), DropCount::default());
    let server = gated(&gate, &drops);
    let mut bench = Bench::of(&server);
    bench.send([get("/a"), get("/b")].concat());
    bench.channel.fail(Error::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
    bench.channel.run();
    assert_eq!((drops.get(), bench.is_open()), (2, false));
    assert_over(&server, 2);
    gate.open(); // Wakes what is gone.
    bench.channel.run();
}

#[test]
fn h07_a_call_is_dropped_at_any_of_its_awaits() {
    for awaits in 0..4 {
        let (gate, drops) = (Gate::default(), DropCount::default());
        let served = (gate.clone(), drops.clone());
        let server = HttpServer::builder(move |request: Request| {
            let (gate, drops) = served.clone();
            async move {
                let _guard = drops.guard();
                for _ in 0..4 {
                    gate.pass().await;
                    sleep(SECOND).await;
                }
                drop(request);
            }
        })
        .build()
        .unwrap();
        let mut bench = Bench::of(&server);
        bench.send(post("/", "Content-Length: 3\r\n"));
        for _ in 0..awaits {
            gate.open();
            bench.advance(SECOND);
        }
        assert_eq!(drops.get(), 0);
        bench.channel.close();
        assert_eq!(drops.get(), 1, "after {awaits} awaits");
        assert_over(&server, 1);
    }
}

#[test]
fn h07_a_service_may_close_its_own_channel() {
    let service = async |request: Request| {
        let channel: Channel = request.into_body().channel().unwrap().clone();
        channel.close_without_future();
        sleep(SECOND).await;
        "late"
    };
    let server = HttpServer::new(service);
    let mut bench = Bench::of(&server);
    bench.send([get("/a"), get("/b")].concat());
    assert_eq!(bench.advance(2 * SECOND), "");
    assert!(!bench.is_open());
    assert_eq!(bench.faults(), 0);
    drop(bench);
    let metrics = server.metrics();
    assert_eq!((metrics.in_the_air, metrics.open_connections), (0, 0));
}

#[test]
fn h07_a_panic_is_status_500_and_closes() {
    for waits in [false, true] {
        let server = HttpServer::builder(move |request: Request| async move {
            if request.uri().path() == "/panic" {
                if waits {
                    sleep(SECOND).await;
                }
                panic!("a service panics on purpose");
            }
            "fine"
        })
        .build()
        .unwrap();
        let mut bench = Bench::of(&server);
        let before = bench.send([get("/a"), get("/panic"), get("/b")].concat());
        let answers = before + &bench.advance(SECOND);
        assert!(answers.starts_with(&ok("fine")), "{answers}");
        assert!(answers.contains("HTTP/1.1 500 Internal Server Error\r\n"), "{answers}");
        assert!(answers.contains("connection: close\r\n"));
        assert_eq!(answers.matches("HTTP/1.1").count(), 2, "nothing follows");
        assert_eq!((bench.faults(), server.metrics().panics), (1, 1));
        bench.finish();
        assert!(!bench.is_open());
        assert_over(&server, if waits { 3 } else { 2 });
    }
}

/// Panics when it is dropped.
struct PanicsAtTheEnd;

impl Drop for PanicsAtTheEnd {
    fn drop(&mut self) {
        panic!("a destructor panics on purpose");
    }
}

#[test]
fn h07_destructors_that_panic_leave_nothing_behind() {
    // In a call, in an answer that waits for its turn, in a body that HEAD does not send.
    let service = async |request: Request| {
        let bomb = PanicsAtTheEnd;
        if request.uri().path() == "/call" {
            pending::<()>().await;
        }
        Body::from_source(waterwheel_http::poll_source(move |_| {
            let _ = &bomb;
            std::task::Poll::Ready(None)
        }))
    };
    let server = HttpServer::new(service);
    let mut bench = Bench::of(&server);
    bench.send([get("/call"), get("/waits"), get("/waits")].concat());
    assert_eq!(server.metrics().in_the_air, 3);
    bench.channel.close();
    assert_eq!(bench.faults(), 3, "each reported once");
    assert_over(&server, 3);

    let server = HttpServer::new(service);
    let mut bench = Bench::of(&server);
    let answer = bench.send("HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!((bench.faults(), bench.is_open()), (1, true));
    bench.channel.close();
    assert_over(&server, 1);
}

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
fn h12_a_drain_answers_what_is_in_the_air_and_begins_nothing_behind_it() {
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
fn h04_an_earlier_answer_does_not_end_the_wait_for_an_upgrade() {
    struct Shout;
    impl Handler for Shout {
        fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
            let bytes = msg.into_bytes().unwrap_or_default();
            ctx.write_and_flush(Bytes::from(bytes.to_ascii_uppercase()));
            Ok(())
        }
    }
    let gate = Gate::default();
    let served = gate.clone();
    let mut bench = Bench::new(move |request: Request| {
        let gate = served.clone();
        async move {
            gate.pass().await;
            match request.headers().contains_key("upgrade") {
                false => Response::new(Body::from("first")),
                true => upgrade_response("shout", |edit| {
                    edit.add_last("shout", Shout)?;
                    Ok(())
                }),
            }
        }
    });
    let upgrade = "GET /b HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n";
    // What follows looks like HTTP, and is not for this server.
    let tunnelled = get("/b");
    assert_eq!(bench.send(format!("{}{upgrade}{tunnelled}", get("/a"))), "");
    gate.open();
    bench.channel.run();
    assert_eq!(bench.received(), ok("first"));
    assert_eq!(bench.send("at all"), "");
    gate.open();
    bench.channel.run();
    let answer = bench.received();
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    assert!(answer.ends_with(&format!("{}AT ALL", tunnelled.to_uppercase())), "{answer}");
    assert_eq!(bench.send(" and on"), " AND ON");
}

#[test]
fn h04_a_refused_upgrade_leaves_http_as_it_was() {
    let gate = Gate::default();
    let mut bench = Bench::of(&gated(&gate, &DropCount::default()));
    let upgrade = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n";
    assert_eq!(bench.send(format!("{upgrade}{}", get("/b"))), "");
    gate.open();
    gate.open();
    bench.channel.run();
    assert_eq!(bench.received(), [ok("/a"), ok("/b")].concat());
}

#[test]
fn h04_an_upgrade_whose_pipeline_cannot_be_built_closes() {
    let server = HttpServer::new(async |_: Request| {
        upgrade_response("shout", |_| Err(Error::new("no pipeline, on purpose")))
    });
    let mut bench = Bench::of(&server);
    bench.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n");
    assert!(!bench.is_open());
    assert_over(&server, 1);
}

#[test]
fn h07_a_call_is_woken_from_another_thread() {
    let (gate, seen) = (Gate::default(), Seen::default());
    let mut bench = Bench::of(&gated(&gate, &DropCount::default()));
    for round in 0..10 {
        let path = format!("/{round}");
        assert_eq!(bench.send(get(&path)), "");
        let gate = gate.clone();
        thread::spawn(move || gate.open()).join().unwrap();
        bench.channel.run();
        assert_eq!(bench.received(), ok(&path));
        seen.note(path);
    }
    assert_eq!(seen.notes().len(), 10);
}
