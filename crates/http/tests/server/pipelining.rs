//! Keep-alive and pipelining: answers in order, whatever order the services finish in.

use std::time::Duration;

use waterwheel_channel::sleep;
use waterwheel_http::{HttpServer, Request};

use crate::bench::Bench;

async fn echo_path(request: Request) -> String {
    request.uri().path().to_owned()
}

/// Answers after as many milliseconds as the path says.
async fn wait(request: Request) -> String {
    let millis = request.uri().path()[1..].parse().unwrap_or(0);
    sleep(Duration::from_millis(millis)).await;
    format!("{millis}")
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn ok(text: &str) -> String {
    let len = text.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len}\r\n\r\n{text}"
    )
}

#[test]
fn h04_requests_of_a_connection_are_answered_one_after_the_other() {
    let mut bench = Bench::new(echo_path);
    assert_eq!(bench.send(get("/a")), ok("/a"));
    assert_eq!(bench.send(get("/b")), ok("/b"));
    assert!(bench.is_open());
}

#[test]
fn h04_pipelined_answers_are_one_write() {
    let mut bench = Bench::new(echo_path);
    let requests: String = (0..16).map(|n| get(&format!("/{n}"))).collect();
    let before = bench.channel.writes();
    let answers: String = (0..16).map(|n| ok(&format!("/{n}"))).collect();
    assert_eq!(bench.send(requests), answers);
    assert_eq!(bench.channel.writes() - before, 1);
}

#[test]
fn h04_answers_keep_the_order_of_the_requests() {
    let mut bench = Bench::new(wait);
    let requests = [get("/30"), get("/10"), get("/0"), get("/20")].concat();
    assert_eq!(bench.send(requests), "");
    assert_eq!(bench.advance(Duration::from_millis(10)), "");
    assert_eq!(bench.advance(Duration::from_millis(10)), "");
    let answers = [ok("30"), ok("10"), ok("0"), ok("20")].concat();
    assert_eq!(bench.advance(Duration::from_millis(10)), answers);
}

#[test]
fn h04_no_more_requests_are_in_flight_than_the_limit_says() {
    let server = HttpServer::builder(wait).max_pipelined(2).build().unwrap();
    let mut bench = Bench::of(&server);
    let requests: String = (0..5).map(|_| get("/10")).collect();
    assert_eq!(bench.send(requests), "");
    assert_eq!(server.metrics().in_flight, 2);
    assert_eq!(bench.advance(Duration::from_millis(10)), [ok("10"), ok("10")].concat());
    assert_eq!(bench.advance(Duration::from_millis(10)), [ok("10"), ok("10")].concat());
    assert_eq!(bench.advance(Duration::from_millis(10)), ok("10"));
    assert_eq!((server.metrics().in_flight, server.metrics().requests), (0, 5));
}
