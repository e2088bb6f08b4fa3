//! How connections and calls end: by the client, by the service, by a panic, by another protocol.

use std::future::pending;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Channel, Ctx, HalfClosed, Handler, HandlerResult, Msg, sleep};
use waterwheel_executor::Error;
use waterwheel_http::{Body, HttpServer, Request, Response, upgrade_response};

use crate::bench::Bench;
use crate::parts::{DropCount, Gate, Seen, assert_over, echo_path, gated, get, ok, post};

const SECOND: Duration = Duration::from_secs(1);

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
fn h04_requests_that_a_full_channel_holds_back_are_answered_after_their_client_has_finished() {
    /// Answers with as many bytes as the path says, and after a moment if it is odd.
    async fn sized(request: Request) -> Vec<u8> {
        let size: usize = request.path()[1..].parse().unwrap_or(0);
        if size % 2 == 1 {
            sleep(Duration::from_millis(1)).await;
        }
        vec![b'x'; size]
    }
    let server = HttpServer::builder(sized).max_pipelined(2).build().unwrap();
    let mut bench = Bench::of(&server);
    let sizes = [1, 62_218, 0, 0, 4_000, 0, 0, 1, 0, 0, 0, 65_042, 0, 0];
    bench.channel.write_inbound(Bytes::from(sizes.map(|size| get(&format!("/{size}"))).concat()));
    bench.channel.finish_inbound();
    bench.channel.run();
    for _ in 0..sizes.len() {
        bench.channel.advance(Duration::from_millis(1));
    }
    assert_eq!(bench.received().matches("HTTP/1.1 200 OK").count(), sizes.len());
    assert!(!bench.is_open());
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
fn h04_requests_that_were_read_are_answered_though_the_flush_of_an_answer_makes_room() {
    // On both sides of the high-water mark, with the head and without.
    for len in [65_000, 65_400, 65_535, 65_600, 100_000] {
        let gate = Gate::default();
        let passed = gate.clone();
        let service = move |_: Request| {
            let gate = passed.clone();
            async move {
                gate.pass().await;
                vec![b'x'; len]
            }
        };
        let server = HttpServer::builder(service).max_pipelined(1).build().unwrap();
        let mut bench = Bench::of(&server);
        bench.send([get("/a"), get("/b"), get("/c")].concat());
        bench.finish();
        for _ in 0..3 {
            gate.open();
            bench.channel.run();
        }
        let answers = bench.received().matches("HTTP/1.1 200 OK").count();
        assert_eq!((answers, bench.is_open()), (3, false), "{len}");
    }
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
    assert_eq!((metrics.in_flight, metrics.open_connections), (0, 0));
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
    assert_eq!(server.metrics().in_flight, 3);
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
