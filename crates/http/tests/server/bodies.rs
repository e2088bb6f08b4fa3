//! Bodies that are received: back-pressure, readers of every kind, `100 Continue`, limits of time.

use std::time::Duration;

use http::StatusCode;
use waterwheel_channel::sleep;
use waterwheel_http::{Body, BodyError, HttpServer, Request, Service};

use crate::bench::Bench;
use crate::parts::{Gate, Seen, Step, echo_path, echo_stream, get, ok, post};

/// The bytes that wait for a reader before reads pause.
const PIPE: usize = 64 * 1024;

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// Returns a service that gives bodies to readers of their own and answers at once.
fn answers_first(seen: &Seen, gate: &Gate) -> impl Service + Clone + Send + Sync {
    let (seen, gate) = (seen.clone(), gate.clone());
    move |request: Request| {
        let path = request.uri().path().to_owned();
        seen.read_elsewhere(request.into_body(), gate.clone());
        async { path }
    }
}

#[test]
fn h06_a_body_that_nobody_reads_stays_on_the_wire() {
    let gate = Gate::default();
    let served = gate.clone();
    let mut bench = Bench::new(move |request: Request| {
        let gate = served.clone();
        async move {
            gate.pass().await;
            request.into_body().collect(1 << 20).await.map(|body| body.len().to_string())
        }
    });
    bench.send(post("/", &format!("Content-Length: {}\r\n", 8 * PIPE)));
    let piece = vec![b'x'; PIPE / 4];
    for _ in 0..32 {
        assert_eq!(bench.send(&piece), "");
    }
    assert_eq!(bench.channel.unread(), 32 - 4, "four pieces fill the pipe, the others wait");
    gate.open();
    bench.channel.run();
    assert_eq!(bench.channel.unread(), 0);
    assert_eq!(bench.received(), ok(&(8 * PIPE).to_string()));
    assert_eq!(bench.send(post("/", "Content-Length: 1\r\n")), "");
    gate.open();
    assert_eq!(bench.send("x"), ok("1"));
}

#[test]
fn h04_the_rest_of_a_small_body_is_skipped_and_that_of_a_large_one_closes() {
    let mut bench = Bench::new(echo_path);
    let head = post("/a", "Content-Length: 60000\r\n");
    assert_eq!(bench.send(head), ok("/a"));
    bench.send(vec![b'x'; 59_999]);
    assert_eq!(bench.send(format!("x{}", get("/b"))), ok("/b"));
    let answer = bench.send(post("/c", &format!("Content-Length: {}\r\n", PIPE + 1)));
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(bench.finish(), "");
    assert!(!bench.is_open());

    let mut bench = Bench::new(echo_path);
    let answer = bench.send(post("/c", "Transfer-Encoding: chunked\r\n"));
    assert!(!answer.contains("connection: close"), "the length is not known yet");
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    for _ in 0..2 {
        bench.send(&chunk);
    }
    assert!(bench.is_open());
    assert_eq!(bench.send(get("/d")), "", "in the middle of a body");
    assert_eq!(bench.send(&chunk), "");
    bench.finish();
    assert!(!bench.is_open());
}

#[test]
fn h07_a_body_is_read_by_a_future_that_outlives_the_call() {
    let (seen, gate) = (Seen::default(), Gate::default());
    let mut bench = Bench::new(answers_first(&seen, &gate));
    let head = post("/a", "Transfer-Encoding: chunked\r\n");
    assert_eq!(bench.send(format!("{head}3\r\nabc\r\n")), ok("/a"));
    assert_eq!(seen.bytes(), 0);
    gate.open();
    assert_eq!(bench.send("2\r\nde\r\n"), "");
    assert_eq!(seen.bytes(), 5);
    let next = get("/b");
    assert_eq!(bench.send(format!("0\r\nA: 1\r\nB: 2\r\n\r\n{next}")), ok("/b"));
    assert_eq!(seen.notes(), ["end, 2 trailers"]);
}

#[test]
fn h07_a_reader_that_outlives_the_call_sees_the_end_of_the_connection() {
    let (seen, gate) = (Seen::default(), Gate::default());
    let mut bench = Bench::new(answers_first(&seen, &gate));
    bench.send(format!("{}abc", post("/a", "Content-Length: 10\r\n")));
    bench.channel.close();
    gate.open();
    bench.channel.run();
    assert_eq!((seen.bytes(), seen.notes()), (3, vec![BodyError::Aborted.to_string()]));
}

#[test]
fn h05_a_client_that_stops_after_its_body_was_held_back_is_ended() {
    let (seen, gate) = (Seen::default(), Gate::default());
    let mut bench = Bench::new(answers_first(&seen, &gate));
    bench.send(post("/a", &format!("Content-Length: {}\r\n", 4 * PIPE)));
    bench.send(vec![b'x'; PIPE]);
    bench.pass(Duration::from_secs(60));
    assert!(bench.is_open(), "the reader is slow, not the client");
    gate.open();
    bench.channel.run();
    assert_eq!(seen.bytes(), PIPE);
    bench.pass(Duration::from_secs(16));
    assert_eq!(seen.notes(), [BodyError::TooSlow { rate: 240 }.to_string()]);
    assert!(!bench.is_open());
}

/// Reads the body in the call, and notes its error.
fn collects(seen: &Seen) -> impl Service + Clone + Send + Sync {
    let seen = seen.clone();
    move |request: Request| {
        let seen = seen.clone();
        async move {
            let collected = request.into_body().collect(1 << 20).await;
            if let Err(error) = &collected {
                seen.note(error);
            }
            collected.map(|body| body.len().to_string())
        }
    }
}

#[test]
fn h05_a_body_at_the_least_rate_goes_on_and_below_it_ends() {
    let mut bench = Bench::new(collects(&Seen::default()));
    bench.send(post("/a", "Content-Length: 7200\r\n"));
    for _ in 0..5 {
        assert_eq!(bench.send([b'x'; 1200]), "");
        assert_eq!(bench.advance(Duration::from_secs(5)), "");
    }
    assert_eq!(bench.send([b'x'; 1200]), ok("7200"));

    bench.send(post("/a", "Content-Length: 7200\r\n"));
    for _ in 0..2 {
        assert_eq!(bench.send([b'x'; 1200]), "");
        assert_eq!(bench.advance(Duration::from_secs(5)), "");
    }
    assert_eq!(bench.send([b'x'; 1199]), "");
    let answer = bench.advance(Duration::from_secs(5));
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n"));
}

#[test]
fn h05_the_least_rate_may_be_any_number() {
    for rate in [0, u64::MAX] {
        let server =
            HttpServer::builder(collects(&Seen::default())).least_body_rate(rate).build().unwrap();
        let mut bench = Bench::of(&server);
        bench.send(post("/a", "Content-Length: 2\r\n"));
        bench.send("x");
        let answer = bench.pass(Duration::from_secs(30));
        assert_eq!(answer.starts_with("HTTP/1.1 408 "), rate > 0, "{rate}: {answer}");
        assert_eq!(bench.faults(), 0);
    }
}

#[test]
fn h05_a_client_is_not_late_while_its_own_answers_are_not_read() {
    // The pipe has room, and reads pause because the output has none.
    let mut bench = Bench::new(echo_stream);
    bench.channel.set_room(0);
    bench.send(post("/a", "Transfer-Encoding: chunked\r\n"));
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    for _ in 0..3 {
        bench.send(&chunk);
    }
    assert!(bench.channel.unread() > 0);
    for _ in 0..20 {
        bench.pass(Duration::from_secs(6));
        bench.channel.set_room(100);
        assert!(bench.is_open(), "a slow reader that makes progress");
    }
    bench.channel.clear_faults();
    let rest = bench.send("0\r\n\r\n");
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "{}", rest.len());
}

#[test]
fn h02_a_truncated_body_is_answered_with_400_and_its_reader_is_told() {
    let (seen, gate) = (Seen::default(), Gate::default());
    gate.open();
    let mut bench = Bench::new(answers_first(&seen, &gate));
    bench.send(format!("{}abc", post("/a", "Content-Length: 10\r\n")));
    bench.finish();
    assert_eq!(seen.notes(), [BodyError::Aborted.to_string()]);
    assert!(!bench.is_open());

    let mut bench = Bench::new(collects(&Seen::default()));
    bench.send(format!("{}abc", post("/a", "Content-Length: 10\r\n")));
    let answer = bench.finish();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(!bench.is_open());
}

#[test]
fn h03_an_answer_that_streams_a_malformed_body_is_cut_off() {
    let server = HttpServer::builder(echo_stream).build().unwrap();
    let mut bench = Bench::of(&server);
    let answer = bench.send(format!("{}2\r\nab\r\n", post("/a", "Transfer-Encoding: chunked\r\n")));
    assert!(answer.ends_with("\r\n\r\n2\r\nab\r\n"), "{answer}");
    assert_eq!(bench.send("x\r\n"), "", "neither an answer in the answer nor the last chunk");
    assert!(!bench.is_open());
    let metrics = server.metrics();
    assert_eq!((metrics.requests, metrics.in_flight, metrics.refused), (1, 0, 1));
}

#[test]
fn h04_a_body_is_read_when_it_is_wanted_and_the_client_told_to_send_it() {
    let expects = post("/a", "Content-Length: 2\r\nExpect: 100-continue\r\n");
    let seen = Seen::default();
    let mut bench = Bench::new(collects(&seen));
    assert_eq!(bench.send(&expects), CONTINUE);
    assert_eq!(bench.send("hi"), ok("2"));
    assert_eq!(bench.send(format!("{expects}hi")), ok("2"), "the client has not waited");
    // A service that does not want the body answers instead, and the connection ends.
    let mut bench = Bench::new(async |_: Request| StatusCode::FORBIDDEN);
    let answer = bench.send(&expects);
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("connection: close\r\n"));
}

#[test]
fn h04_a_pipelined_request_is_told_to_continue_when_its_turn_has_come() {
    let gate = Gate::default();
    let served = gate.clone();
    let mut bench = Bench::new(move |request: Request| {
        let gate = served.clone();
        async move {
            if request.method() == http::Method::GET {
                gate.pass().await;
                return Ok("get".to_owned());
            }
            request.into_body().collect(10).await.map(|body| body.len().to_string())
        }
    });
    assert_eq!(bench.send(get("/")), "");
    assert_eq!(bench.send(post("/a", "Content-Length: 2\r\nExpect: 100-continue\r\n")), "");
    gate.open();
    bench.channel.run();
    assert_eq!(bench.received(), format!("{}{CONTINUE}", ok("get")));
    assert_eq!(bench.send("hi"), ok("2"));
}

#[test]
fn h04_a_reader_elsewhere_has_the_client_told_to_continue() {
    let (seen, gate) = (Seen::default(), Gate::default());
    let done = Gate::default();
    let served = (seen.clone(), gate.clone(), done.clone());
    let mut bench = Bench::new(move |request: Request| {
        let (seen, gate, done) = served.clone();
        async move {
            seen.read_elsewhere(request.into_body(), gate);
            done.pass().await;
            "done"
        }
    });
    let expects = post("/a", "Content-Length: 2\r\nExpect: 100-continue\r\n");
    for _ in 0..3 {
        assert_eq!(bench.send(&expects), "");
        gate.open();
        bench.channel.run();
        assert_eq!(bench.received(), CONTINUE);
        assert_eq!(bench.send("hi"), "");
        assert_eq!(seen.notes(), ["end, 0 trailers"]);
        done.open();
        bench.channel.run();
        assert_eq!(bench.received(), ok("done"));
    }
}

#[test]
fn h04_the_body_that_an_answer_streams_is_asked_for_before_the_answer() {
    let mut bench = Bench::new(echo_stream);
    for _ in 0..2 {
        let answer = bench.send(post("/a", "Content-Length: 2\r\nExpect: 100-continue\r\n"));
        assert_eq!(answer, format!("{CONTINUE}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"));
        assert_eq!(bench.send("hi"), "hi");
    }
}

#[test]
fn h05_a_client_that_does_not_send_what_it_was_asked_for_is_ended() {
    for fields in ["Content-Length: 2\r\nExpect: 100-continue\r\n", "Content-Length: 2\r\n"] {
        let mut bench = Bench::new(echo_stream);
        bench.send(post("/a", fields));
        assert_eq!(bench.pass(Duration::from_secs(11)), "", "nothing in the middle of the answer");
        assert!(!bench.is_open());
    }
}

#[test]
fn h04_a_body_may_be_passed_on_in_pieces_while_the_service_waits() {
    let mut bench = Bench::new(async |request: Request| {
        let (mut body, mut texts) = (request.into_body(), Vec::new());
        while let Some(Ok(chunk)) = body.chunk().await {
            texts.push(String::from_utf8(chunk.to_vec()).unwrap());
            sleep(Duration::from_millis(10)).await;
        }
        texts.concat()
    });
    bench.send(post("/a", "Transfer-Encoding: chunked\r\n"));
    assert_eq!(bench.send_pieces(&["1\r\na", "\r\n2\r", "\nbc\r\n", "0\r\n\r\n"]), "");
    assert_eq!(
        bench.pass(Duration::from_millis(500)) + &bench.pass(Duration::from_millis(1000)),
        ok("abc")
    );
}

#[test]
fn h04_a_dropped_body_is_skipped_while_the_service_works_on() {
    let gate = Gate::default();
    let served = gate.clone();
    let mut bench = Bench::new(move |request: Request| {
        let gate = served.clone();
        async move {
            drop(request);
            gate.pass().await;
            Body::from_source(crate::parts::Script::new([Step::Chunk("late")]).announcing(4))
        }
    });
    bench.send(post("/a", "Content-Length: 100000\r\n"));
    bench.send(vec![b'x'; 99_000]);
    assert_eq!(bench.channel.unread(), 0);
    gate.open();
    bench.channel.run();
    let answer = bench.received();
    assert!(
        answer.contains("connection: close\r\n") && answer.ends_with("\r\n\r\nlate"),
        "{answer}"
    );
}

#[test]
fn h03_what_comes_in_one_round_of_reads_is_seen_before_the_service_is_called() {
    let mut bench = Bench::new(async |request: Request| Body::from(request.into_body()));
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = bench.send_pieces(&[head, "5\r\nhello\r\n", "5\r\nhello\r\nx\r\n"]);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1);
}

#[test]
fn h06_a_body_larger_than_a_round_reaches_its_service() {
    let mut bench = Bench::new(async |request: Request| {
        let body = request.into_body().collect(1 << 20).await;
        body.map(|body| body.len().to_string())
    });
    let chunk = "x".repeat(40 * 1024);
    let head =
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 20 * chunk.len());
    let mut pieces = vec![head.as_str()];
    pieces.extend(std::iter::repeat_n(chunk.as_str(), 20));
    let answer = bench.send_pieces(&pieces);
    assert!(answer.ends_with(&(20 * chunk.len()).to_string()), "{answer}");
}
