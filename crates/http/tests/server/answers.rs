//! Bodies that are sent: every kind, every wrong one, back-pressure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use waterwheel_channel::{Completion, Ctx, FileRegion, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_http::{
    Body, BodyChunk, BodyError, BodySource, HttpServer, IntoResponse, Request, Response,
    poll_source,
};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::temp_file::TempFile;

use crate::bench::Bench;
use crate::parts::{Gate, Script, Step, get, ok};

fn head(path: &str) -> String {
    get(path).replace("GET", "HEAD")
}

fn get10(path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\n\r\n")
}

fn chunks() -> Script {
    Script::new([Step::Chunk("abc"), Step::Chunk(""), Step::Chunk("0123456789abcdefg")])
}

/// Answers with the kind of body that the path names.
async fn kinds(request: Request) -> Response {
    match request.uri().path() {
        "/empty" => Body::empty().into_response(),
        "/text" => "text".into_response(),
        "/large" => vec![b'x'; 100_000].into_response(),
        "/length" => Body::from_source(chunks().announcing(20)).into_response(),
        "/chunks" => Body::from_source(chunks()).into_response(),
        "/trailers" => {
            Body::from_source(chunks().trailer("a", "1").trailer("b", "2")).into_response()
        }
        "/none" => Body::from_source(Script::new([])).into_response(),
        "/none-announced" => Body::from_source(Script::new([]).announcing(0)).into_response(),
        "/204" => (StatusCode::NO_CONTENT, "dropped").into_response(),
        "/204-stream" => (StatusCode::NO_CONTENT, Body::from_source(chunks())).into_response(),
        "/304" => {
            let mut response = (StatusCode::NOT_MODIFIED, "dropped").into_response();
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("77"));
            response
        }
        "/close" => {
            let mut response = "bye".into_response();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
        path => unreachable!("no answer for {path}"),
    }
}

const CHUNKED: &str = "3\r\nabc\r\n11\r\n0123456789abcdefg\r\n";

#[test]
fn h04_every_kind_of_body_is_framed_for_the_version_of_the_client() {
    let length =
        |n: usize, body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {n}\r\n\r\n{body}");
    let chunked =
        |body: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{body}");
    let large = "x".repeat(100_000);
    let rows = [
        ("/empty", length(0, "")),
        ("/text", ok("text")),
        ("/large", length(100_000, &large)),
        ("/length", length(20, "abc0123456789abcdefg")),
        ("/chunks", chunked(&format!("{CHUNKED}0\r\n\r\n"))),
        ("/trailers", chunked(&format!("{CHUNKED}0\r\na: 1\r\nb: 2\r\n\r\n"))),
        ("/none", chunked("0\r\n\r\n")),
        ("/none-announced", length(0, "")),
    ];
    let mut bench = Bench::new(kinds);
    for (path, answer) in &rows {
        assert_eq!(bench.send(get(path)), *answer, "{path}");
    }
    for (path, answer) in &rows {
        let mut bench = Bench::new(kinds);
        let received = bench.send(get10(path));
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        let (_, body11) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nconnection: close"), "{path}: {head}");
        match head.contains("content-length") {
            true => assert_eq!(body, body11, "{path}"),
            false if *path == "/none" => assert_eq!(body, ""),
            false => assert_eq!(body, "abc0123456789abcdefg", "{path} ends with the connection"),
        }
        assert!(!head.contains("transfer-encoding"));
        bench.finish();
        assert!(!bench.is_open());
    }
}

#[test]
fn h04_head_and_bodiless_statuses_have_the_fields_and_no_body() {
    let mut bench = Bench::new(kinds);
    for path in ["/empty", "/text", "/large", "/length", "/none-announced"] {
        let answer = bench.send(head(path));
        assert!(answer.ends_with("\r\n\r\n"), "{path}: {answer}");
        let length = bench
            .send(get(path))
            .split("content-length: ")
            .nth(1)
            .unwrap()
            .split("\r\n")
            .next()
            .unwrap()
            .to_owned();
        assert!(answer.contains(&format!("content-length: {length}\r\n")), "{path}: {answer}");
    }
    for path in ["/chunks", "/trailers", "/none"] {
        assert_eq!(bench.send(head(path)), "HTTP/1.1 200 OK\r\n\r\n", "{path}");
    }
    let none = bench.send(get("/204"));
    assert!(none.starts_with("HTTP/1.1 204 No Content\r\n") && none.ends_with("\r\n\r\n"));
    assert!(!none.contains("content-length"), "{none}");
    assert_eq!(bench.send(get("/204-stream")), "HTTP/1.1 204 No Content\r\n\r\n");
    let unchanged = bench.send(get("/304"));
    assert!(unchanged.contains("content-length: 77\r\n") && unchanged.ends_with("\r\n\r\n"));
    assert!(bench.is_open());
    let close = bench.send([get("/close"), get("/text")].concat());
    assert!(close.contains("connection: close\r\n") && close.ends_with("\r\n\r\nbye"), "{close}");
}

#[test]
fn h07_a_body_that_breaks_its_promise_is_cut_off() {
    let gate = Gate::default();
    let wait = || Step::Wait(gate.clone());
    let scripts: [(&str, Vec<Step>, Option<u64>); 7] = [
        ("too long", vec![Step::Chunk("abc"), Step::Chunk("de")], Some(4)),
        ("too short", vec![Step::Chunk("abc")], Some(4)),
        ("none", vec![], Some(4)),
        ("fails", vec![Step::Chunk("abc"), Step::Fail(BodyError::Aborted)], None),
        ("fails later", vec![Step::Chunk("abc"), wait(), Step::Fail(BodyError::Aborted)], Some(9)),
        ("panics", vec![Step::Chunk("abc"), Step::Panic], None),
        ("panics later", vec![Step::Chunk("abc"), wait(), Step::Panic], None),
    ];
    for (name, steps, len) in scripts {
        let server = HttpServer::builder(move |request: Request| {
            let is_first = request.uri().path() == "/1";
            let mut script = Script::new(if is_first { steps.clone() } else { Vec::new() });
            if let Some(len) = len.filter(|_| is_first) {
                script = script.announcing(len);
            }
            async move { Body::from_source(script) }
        })
        .build()
        .unwrap();
        let mut bench = Bench::of(&server);
        let mut answer = bench.send([get("/1"), get("/2")].concat());
        gate.open();
        bench.channel.run();
        answer += &bench.received();
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{name}: {answer}");
        assert!(!answer.ends_with("0\r\n\r\n"), "{name}: the client sees that it is not complete");
        assert!(!bench.is_open(), "{name}");
        assert!(bench.channel.channel().close_cause().is_some(), "{name}: says why");
        assert_eq!(bench.faults(), usize::from(name.starts_with("panics")), "{name}");
        let metrics = server.metrics();
        assert_eq!((metrics.in_flight, metrics.open_connections), (0, 0), "{name}");
    }
}

/// A source whose other methods panic.
struct PanicsBesides {
    in_length: bool,
}

impl BodySource for PanicsBesides {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        Poll::Ready(None)
    }

    fn exact_len(&self) -> Option<u64> {
        assert!(!self.in_length, "a length panics on purpose");
        None
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        panic!("trailers panic on purpose")
    }
}

#[test]
fn h07_a_source_that_panics_in_its_length_or_its_trailers_ends_the_connection() {
    for in_length in [true, false] {
        let server = HttpServer::builder(move |_: Request| async move {
            Body::from_source(PanicsBesides { in_length })
        })
        .build()
        .unwrap();
        let mut bench = Bench::of(&server);
        let answer = bench.send([get("/1"), get("/2")].concat());
        match in_length {
            true => {
                assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
                assert!(answer.contains("connection: close\r\n"));
            }
            false => assert!(answer.ends_with("chunked\r\n\r\n"), "{answer}"),
        }
        assert_eq!((bench.faults(), answer.matches("HTTP/1.1").count()), (1, 1));
        bench.finish();
        assert!(!bench.is_open());
        let metrics = server.metrics();
        assert_eq!((metrics.in_flight, metrics.open_connections), (0, 0));
    }
}

/// Returns a server of a file, and the file.
fn file_server() -> (HttpServer, TempFile) {
    let file = TempFile::new(200_000);
    let path = file.path().to_owned();
    let server = HttpServer::builder(move |request: Request| {
        let file = std::fs::File::open(&path).unwrap();
        let region = FileRegion::new(file, 1..).unwrap();
        let is_stream = request.uri().path() == "/stream";
        async move {
            if !is_stream {
                return Body::file(region);
            }
            let mut parts = vec![BodyChunk::Bytes("end".into()), BodyChunk::File(region)];
            Body::from_source(Parts(std::iter::from_fn(move || parts.pop())))
        }
    })
    .build()
    .unwrap();
    (server, file)
}

/// A source of chunks that are at hand.
struct Parts<I>(I);

impl<I: Iterator<Item = BodyChunk> + 'static> BodySource for Parts<I> {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        Poll::Ready(self.0.next().map(Ok))
    }
}

/// Passes everything on; takes bytes alone, as TLS does.
struct BytesOnly;

impl Handler for BytesOnly {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        match msg.into_bytes() {
            Ok(bytes) => ctx.write_with(bytes, done.take()),
            Err(other) => return Err(Error::new(format!("{} is no bytes", other.type_name()))),
        }
        Ok(())
    }
}

#[test]
fn h08_a_file_is_sent_by_the_kernel_or_read_in_pieces_behind_other_handlers() {
    let (server, file) = file_server();

    let mut channel = Embedded::new(|edit| server.initialise(edit)).unwrap();
    channel.write_inbound(Bytes::from(get("/")));
    assert!(channel.read_outbound::<Bytes>().unwrap().ends_with(b"content-length: 199999\r\n\r\n"));
    let region = channel.read_outbound::<FileRegion>().unwrap();
    assert_eq!((region.offset(), region.len()), (1, 199_999));

    for is_behind in [false, true] {
        let mut bench = Bench::with_pipeline(|edit| {
            if is_behind {
                edit.add_last("bytes only", BytesOnly)?;
            }
            server.initialise(edit)
        });
        for _ in 0..2 {
            bench.channel.write_inbound(Bytes::from(get("/")));
            assert!(bench.received_bytes().ends_with(&file.contents()[1..]), "{is_behind}");
        }
        bench.channel.write_inbound(Bytes::from(get("/stream")));
        let answer = bench.received_bytes();
        assert!(answer.ends_with(b"\r\n3\r\nend\r\n0\r\n\r\n"), "{is_behind}");
        assert!(answer.len() > 200_000);
        assert!(bench.send(head("/")).ends_with("content-length: 199999\r\n\r\n"));
    }
}

#[test]
fn h08_a_file_that_shrinks_cuts_its_answer_off() {
    for is_behind in [false, true] {
        let (server, file) = file_server();
        let mut bench = Bench::with_pipeline(|edit| {
            if is_behind {
                edit.add_last("bytes only", BytesOnly)?;
            }
            server.initialise(edit)
        });
        bench.channel.set_room(1_000);
        bench.channel.write_inbound(Bytes::from(get("/")));
        file.set_len(10_000);
        bench.channel.clear_faults();
        bench.channel.run();
        assert!(!bench.is_open(), "behind another handler: {is_behind}");
        assert_eq!(server.metrics().open_connections, 0);
    }
}

#[test]
fn h06_a_source_is_asked_only_while_the_channel_has_room() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let mut bench = Bench::new(move |_: Request| {
        let counted = counted.clone();
        async move {
            let mut left = 1_000;
            Body::from_source(poll_source(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
                left -= 1;
                Poll::Ready((left > 0).then(|| Ok(Bytes::from_static(&[b'x'; 10_000]))))
            }))
        }
    });
    bench.channel.set_room(0);
    bench.send([get("/"), get("/")].concat());
    let first = asked.load(Ordering::Relaxed);
    assert!((6..=8).contains(&first), "{first} chunks of 10 kB reach the mark of 64 KiB");
    bench.pass(Duration::from_secs(10));
    assert_eq!(asked.load(Ordering::Relaxed), first);
    bench.channel.set_room(50_000);
    assert!(asked.load(Ordering::Relaxed) > first);
    assert!(bench.channel.channel().pending_bytes() < 80_000);
    bench.channel.short_writes(7_777);
    bench.channel.clear_faults();
    bench.channel.run();
    assert_eq!(asked.load(Ordering::Relaxed), 2_000);
    let chunks = bench.received().matches("2710\r\n").count();
    assert_eq!(chunks, 2 * 999);
}

#[test]
fn h06_a_source_that_is_always_ready_lets_others_run() {
    let server = HttpServer::new(async |_: Request| {
        let mut left = 3_000;
        // Small chunks, and empty ones.
        Body::from_source(poll_source(move |_| {
            left -= 1;
            let chunk = if left % 2 == 0 { "" } else { "x" };
            Poll::Ready((left > 0).then(|| Ok(Bytes::from(chunk))))
        }))
    });
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = turns.clone();
    let mut bench = Bench::of(&server);
    bench.channel.on_loop(move |_| {
        drop(waterwheel_channel::LocalLoop::current().unwrap().spawn_local(async move {
            for _ in 0..10_000 {
                counted.fetch_add(1, Ordering::Relaxed);
                waterwheel_channel::yield_now().await;
            }
        }));
    });
    let before = turns.load(Ordering::Relaxed);
    bench.channel.write_inbound(Bytes::from(get("/")));
    let answer = bench.received();
    assert_eq!(answer.matches("1\r\nx\r\n").count(), 1_500);
    assert!(turns.load(Ordering::Relaxed) - before >= 40, "64 chunks in a turn");
}

#[test]
fn h04_large_answers_keep_their_order_through_short_writes() {
    let server = HttpServer::new(async |request: Request| {
        let byte = request.uri().path().as_bytes()[1];
        match byte % 3 {
            0 => Body::from(vec![byte; 90_000]),
            1 => Body::from_source(Parts(
                (0..90).map(move |_| BodyChunk::Bytes(vec![byte; 1_000].into())),
            )),
            _ => Body::from(vec![byte; 100]),
        }
    });
    let mut bench = Bench::of(&server);
    bench.channel.short_writes(3_000);
    let requests: String = ('a'..='z').map(|path| get(&format!("/{path}"))).collect();
    let answers = bench.send(requests);
    let mut bodies = answers.split("HTTP/1.1 200 OK\r\n").skip(1);
    for byte in 'a'..='z' {
        let (head, body) = bodies.next().unwrap().split_once("\r\n\r\n").unwrap();
        let letters = body.chars().filter(|c| *c == byte).count();
        let expected = if u32::from(byte) % 3 == 2 { 100 } else { 90_000 };
        // Sizes of chunks are digits of base 16 too: "3e8".
        let sizes = if head.contains("chunked") && byte == 'e' { 90 } else { 0 };
        assert_eq!(letters, expected + sizes, "{byte}");
    }
    assert!(bodies.next().is_none());
    assert_eq!(server.metrics().in_flight, 0);
}

#[test]
fn h04_many_streamed_answers_that_wait_for_one_are_written_in_one_call() {
    let gate = Gate::default();
    let served = gate.clone();
    const REQUESTS: usize = 20_000;
    let server = HttpServer::builder(move |request: Request| {
        let gate = served.clone();
        async move {
            if request.uri().path() == "/wait" {
                gate.pass().await;
            }
            Body::from_source(Script::new([]))
        }
    })
    .max_pipelined(REQUESTS)
    .build()
    .unwrap();
    let mut bench = Bench::of(&server);
    bench.send(get("/wait"));
    for _ in 0..REQUESTS / 100 {
        bench.send(get("/").repeat(100));
    }
    gate.open();
    bench.channel.run();
    assert!(bench.received().matches("chunked").count() >= REQUESTS);
}

#[test]
#[should_panic(expected = "is not a Content-Type")]
fn h03_a_content_type_cannot_split_a_response() {
    drop(Body::from("text").with_content_type("text/html\r\nset-cookie: a=b"));
}
