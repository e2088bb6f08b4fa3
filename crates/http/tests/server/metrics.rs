//! The counters and logs of a server, and the fields that it adds.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;
use http::header::{DATE, HeaderValue, SERVER};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use waterwheel_channel::sleep;
use waterwheel_http::{HttpMetrics, HttpServer, IntoResponse, Request, Response};

use crate::bench::Bench;
use crate::parts::{get, ok, post};

/// Answers as the path says.
async fn service(request: Request) -> Response {
    match request.uri().path() {
        "/slow" => {
            sleep(Duration::from_millis(100)).await;
            "slow".into_response()
        }
        "/404" => StatusCode::NOT_FOUND.into_response(),
        "/302" => StatusCode::FOUND.into_response(),
        "/own" => {
            let mut response = "own".into_response();
            response.headers_mut().insert(DATE, HeaderValue::from_static("mine"));
            response.headers_mut().insert(SERVER, HeaderValue::from_static("mine"));
            response
        }
        path => path.to_owned().into_response(),
    }
}

/// Returns the number of answers, by any status.
fn answers(metrics: &HttpMetrics) -> u64 {
    metrics.responses.iter().sum()
}

#[test]
fn h13_counters_add_up() {
    let server = HttpServer::new(service);
    let mut bench = Bench::of(&server);
    let other = Bench::of(&server);
    let sent = [get("/a"), get("/404"), get("/302"), get("/slow"), get("/slow")].concat();
    let mut received = bench.send(&sent);
    let metrics = server.metrics();
    assert_eq!((metrics.connections, metrics.open_connections), (2, 2));
    assert_eq!((metrics.requests, metrics.in_flight, answers(&metrics)), (5, 2, 3));
    received += &bench.advance(Duration::from_millis(100));
    received += &bench.send("no http\r\n");
    let metrics = server.metrics();
    assert_eq!((metrics.requests, metrics.in_flight), (6, 0));
    assert_eq!(metrics.responses, [0, 3, 1, 2, 0]);
    assert_eq!((metrics.refused, metrics.panics), (1, 0));
    assert_eq!(metrics.bytes_in as usize, sent.len() + 9);
    let date = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".len();
    assert_eq!(metrics.bytes_out as usize, received.len() + 6 * date);
    assert_eq!(metrics.latency.iter().sum::<u64>(), 6);
    let slow = metrics.latency.iter().rposition(|count| *count == 2).unwrap();
    assert!(HttpMetrics::latency_bound(slow).unwrap() >= Duration::from_millis(100));
    assert_eq!(
        metrics.latency_sum,
        Duration::from_millis(200),
        "the virtual clock stood still otherwise"
    );
    drop((bench, other));
    assert_eq!(server.metrics().open_connections, 0);
}

#[test]
fn h13_requests_that_are_never_answered_are_not_in_flight() {
    let server = HttpServer::new(service);
    let slow = || [get("/slow"), get("/slow"), post("/slow", "Content-Length: 9\r\n")].concat();
    let mut closed = Bench::of(&server);
    closed.send(slow());
    closed.channel.close();
    let mut dropped = Bench::of(&server);
    dropped.send(slow());
    drop(dropped);
    let mut removed = Bench::of(&server);
    removed.send(slow());
    removed.channel.with_pipeline(|pipeline| drop(pipeline.remove("http")));
    let metrics = server.metrics();
    assert_eq!((metrics.requests, metrics.in_flight, metrics.open_connections), (9, 0, 0));
    assert_eq!(answers(&metrics), 0);
}

/// Keeps the fields of events of the access log.
#[derive(Clone, Default)]
struct AccessLog(Arc<Mutex<Vec<String>>>);

impl AccessLog {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for AccessLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "waterwheel::access"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn h13_the_access_log_has_a_line_for_each_answer() {
    let log = AccessLog::default();
    let kept = log.clone();
    tracing::subscriber::with_default(kept, || {
        let server = HttpServer::builder(service).access_log(true).build().unwrap();
        let mut bench = Bench::of(&server);
        bench.send([get("/slow?q=1"), get("/404")].concat());
        assert!(log.take().is_empty(), "lines are written with the answers");
        bench.advance(Duration::from_millis(100));
        let lines = log.take();
        assert_eq!(
            lines,
            [
                "peer=- method=GET uri=/slow?q=1 version=HTTP/1.1 status=200 bytes=4 micros=100000 ",
                "peer=- method=GET uri=/404 version=HTTP/1.1 status=404 bytes=9 micros=100000 ",
            ]
        );
        bench.send("GET /secret HTTP/1.1\r\nX : y\r\n");
        assert_eq!(log.take(), ["peer=- method=- uri=- version=- status=400 bytes=73 micros=0 "]);
        let mut bench = Bench::of(&HttpServer::new(service));
        assert_eq!(bench.send(get("/a")), ok("/a"));
        assert!(log.take().is_empty(), "off by default");
    });
}

#[test]
fn h13_date_and_server_are_added_unless_the_service_sends_them() {
    let server = HttpServer::builder(service).server_name("a wheel").build().unwrap();
    let mut bench = Bench::of(&server);
    bench.channel.write_inbound(bytes::Bytes::from(get("/a")));
    let answer = String::from_utf8(bench.received_bytes()).unwrap();
    let mut lines = answer.split("\r\n");
    assert_eq!(lines.next(), Some("HTTP/1.1 200 OK"));
    let date = lines.next().unwrap().strip_prefix("date: ").unwrap();
    assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
    assert_eq!(lines.next(), Some("server: a wheel"));
    bench.channel.write_inbound(bytes::Bytes::from(get("/own")));
    let answer = String::from_utf8(bench.received_bytes()).unwrap();
    assert_eq!(answer.matches("date: ").count(), 1, "{answer}");
    assert!(answer.contains("date: mine\r\n") && answer.contains("server: mine\r\n"));
    assert!(!answer.contains("a wheel"));
}
