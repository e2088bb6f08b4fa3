//! Clients that mean harm: neither the log nor the timers of a loop grow with what they send (R04).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use waterwheel_http::{BodyError, HttpServer, Request};

use crate::bench::Bench;
use crate::parts::{echo_path, get, post};

/// Counts the lines of the log, whatever their target, down to level INFO.
#[derive(Clone, Default)]
struct LineCount(Arc<AtomicUsize>);

impl Subscriber for LineCount {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn collect(request: Request) -> Result<bytes::Bytes, BodyError> {
    request.into_body().collect(100).await
}

#[test]
fn r04_what_clients_do_wrong_is_counted_and_not_logged() {
    let lines = LineCount::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let server = HttpServer::new(collect);
        let long = "x".repeat(20_000);
        let wrong = [
            "no http\r\n\r\n".to_owned(),
            format!("GET /{long}"),
            format!("GET / HTTP/1.1\r\nHost: {long}"),
            "GET / HTTP/1.1\r\n\r\n".to_owned(),
            "GET / HTTP/3.0\r\nHost: a\r\n\r\n".to_owned(),
            post("/", "Transfer-Encoding: gzip\r\n"),
            post("/", "Content-Length: 99999999999\r\n"),
            format!("{}xyz\r\n", post("/", "Transfer-Encoding: chunked\r\n")),
        ];
        for (round, sent) in wrong.iter().cycle().take(400).enumerate() {
            let mut bench = Bench::of(&server);
            assert!(bench.send(sent).starts_with("HTTP/1.1 "), "{sent:.40}");
            match round % 3 {
                0 => drop(bench.finish()),
                1 => drop(bench.pass(Duration::from_secs(10))),
                _ => bench.channel.fail(waterwheel_executor::Error::new("lost")),
            }
            assert!(!bench.is_open(), "{sent:.40}");
            assert_eq!(bench.faults(), 0, "{sent:.40}");
        }
        // Heads that never end, bodies that are too slow, answers that nobody reads.
        for sent in ["GET".to_owned(), format!("{}x", post("/", "Content-Length: 9\r\n"))] {
            let mut bench = Bench::of(&server);
            bench.send(sent);
            bench.pass(Duration::from_secs(30));
            assert!(!bench.is_open());
        }
        let metrics = server.metrics();
        assert_eq!((metrics.refused, metrics.open_connections, metrics.in_flight), (400, 0, 0));
        tracing::info!("the only line");
    });
    assert_eq!(lines.0.load(Ordering::Relaxed), 1);
}

#[test]
fn h05_a_thousand_requests_need_one_timer() {
    let mut bench = Bench::new(echo_path);
    let event_loop = bench.channel.channel().event_loop();
    for round in 0..1_000 {
        match round % 3 {
            0 => drop(bench.send(get("/a"))),
            1 => {
                bench.send("GET /");
                bench.send("b HTTP/1.1\r\nHost: a\r\n\r\n");
            }
            _ => {
                bench.send(post("/c", "Content-Length: 2\r\n"));
                bench.send("hi");
            }
        }
        bench.advance(Duration::from_millis(10));
        assert_eq!(event_loop.metrics().timers, 1, "round {round}");
    }
    bench.pass(Duration::from_secs(80));
    assert!(!bench.is_open());
    assert_eq!(event_loop.metrics().timers, 0);
}
