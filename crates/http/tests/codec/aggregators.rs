//! Whole messages.

use bytes::Bytes;
use http::Method;
use waterwheel_http::{
    Aggregator, FullRequest, FullResponse, HttpClientCodec, HttpServerCodec, MessageLimits,
};

use crate::test_bench::TestBench;

fn server(limit: usize) -> TestBench {
    TestBench::new(|edit| {
        HttpServerCodec::default().add_last(edit, "http")?;
        edit.add_last("whole", Aggregator::of_requests(limit))?;
        Ok(())
    })
}

fn client(limit: usize) -> TestBench {
    let mut bench = TestBench::new(|edit| {
        HttpClientCodec::default().add_last(edit, "http")?;
        edit.add_last("whole", Aggregator::of_responses(limit))?;
        Ok(())
    });
    let request = http::Request::builder().method(Method::GET).uri("http://a/");
    drop(bench.write(FullRequest::from(request.body(Bytes::new()).unwrap())));
    let _ = bench.sent();
    bench
}

const CHUNKED: &str = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn h01_an_aggregator_makes_whole_requests() {
    let mut bench = server(100);
    assert_eq!(bench.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n"), ["GET /a b\"\""]);
    let post = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel";
    assert!(bench.send(post).is_empty());
    assert_eq!(bench.send("lo"), ["POST /b b\"hello\""]);
    let chunks = format!("{CHUNKED}2\r\nhi\r\n1\r\n!\r\n1\r\n?\r\n0\r\nX: y\r\n\r\n");
    assert_eq!(bench.send(chunks), ["POST /c b\"hi!?\" with trailers"]);
}

#[test]
fn h02_an_aggregator_refuses_long_requests_in_their_turn() {
    let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let sized = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nhello!";
    let chunks = format!("{CHUNKED}3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
    for post in [sized, &chunks] {
        let mut bench = server(5);
        assert_eq!(bench.send(format!("{get}{post}{get}")), ["GET /a b\"\""]);
        assert_eq!(bench.sent(), "");
        drop(bench.write(FullResponse::from(http::Response::new(Bytes::new()))));
        let sent = bench.sent();
        let refusal = sent.strip_prefix("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        assert!(refusal.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{sent}");
        assert!(refusal.contains("connection: close\r\n"));
        assert_eq!(bench.events().len(), 1);
        assert!(bench.send(get).is_empty());
    }
}

#[test]
fn h02_a_request_of_just_the_limit_is_accepted() {
    let mut bench = server(5);
    let sized = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(bench.send(sized), ["POST /b b\"hello\""]);
    let chunks = format!("{CHUNKED}3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n");
    assert_eq!(bench.send(chunks), ["POST /c b\"hello\""]);
}

#[test]
fn h04_an_aggregator_tells_the_client_to_go_on_unless_the_body_is_too_long() {
    let post = |length| {
        format!(
            "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        )
    };
    let mut bench = server(5);
    assert!(bench.send(post(5)).is_empty());
    assert_eq!(bench.sent(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(bench.send("hello"), ["POST /b b\"hello\""]);
    drop(bench.write(FullResponse::from(http::Response::new(Bytes::new()))));
    let _ = bench.sent();
    assert!(bench.send(post(6)).is_empty());
    assert!(bench.sent().starts_with("HTTP/1.1 413 "));
}

#[test]
fn h02_a_request_that_the_codec_refuses_is_forgotten() {
    let codec = HttpServerCodec::builder()
        .limits(MessageLimits::default().max_body_bytes(4))
        .build()
        .unwrap();
    let mut bench = TestBench::new(|edit| {
        codec.add_last(edit, "http")?;
        edit.add_last("whole", Aggregator::of_requests(100))?;
        Ok(())
    });
    assert!(bench.send(format!("{CHUNKED}3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")).is_empty());
    assert!(bench.sent().starts_with("HTTP/1.1 413 "));
}

#[test]
fn h01_an_aggregator_makes_whole_responses() {
    let mut bench = client(5);
    let answer = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
    assert_eq!(bench.send(answer), ["103 None"]);
    assert_eq!(bench.send("lo"), ["200 b\"hello\""]);
}

#[test]
fn h02_a_response_that_is_too_long_is_an_error() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello!\r\n",
        "HTTP/1.1 200 OK\r\n\r\nhello!",
    ] {
        let mut bench = client(5);
        assert!(bench.send(answer).is_empty());
        let text = "the body has 6 bytes or more, and at most 5 are accepted";
        assert_eq!(bench.events()[0], format!("error: {text}"));
        assert_eq!(bench.close_cause(), text);
    }
}
