//! The codec of a client.

use bytes::Bytes;
use http::{HeaderValue, Method};
use waterwheel_http::{
    BodyEnd, BodyFraming, FullRequest, HttpClientCodec, MessageLimits, RequestHead,
};

use crate::test_bench::TestBench;

fn full(method: Method, uri: &str, body: &'static str) -> FullRequest {
    let request = http::Request::builder().method(method).uri(uri);
    FullRequest::from(request.body(Bytes::from(body)).unwrap())
}

fn asked(method: Method) -> TestBench {
    let mut bench = TestBench::client();
    drop(bench.write(full(method, "http://a/", "")));
    bench
}

#[test]
fn h01_requests_are_framed_and_get_a_host() {
    let mut bench = TestBench::client();
    drop(bench.write(full(Method::GET, "http://a:81/b?c", "")));
    assert_eq!(bench.sent(), "GET /b?c HTTP/1.1\r\nhost: a:81\r\n\r\n");
    drop(bench.write(full(Method::POST, "http://a:80", "")));
    assert_eq!(bench.sent(), "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    drop(bench.write(full(Method::PUT, "https://a:443/", "hello")));
    assert_eq!(bench.sent(), "PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello");
    let mut head = RequestHead::new(Method::POST, "/".parse().unwrap(), BodyFraming::UntilClose);
    head.headers_mut().insert("host", HeaderValue::from_static("b"));
    drop(bench.write(head));
    drop(bench.write(Bytes::from_static(b"hello")));
    bench.write(BodyEnd::default()).join().unwrap();
    assert_eq!(
        bench.sent(),
        "POST / HTTP/1.1\r\nhost: b\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    );
    drop(bench.write(full(Method::CONNECT, "a:443", "")));
    assert!(bench.sent().starts_with("CONNECT a:443 HTTP/1.1\r\nhost: a"));
}

#[test]
fn h01_a_client_of_a_proxy_writes_whole_uris() {
    let codec = HttpClientCodec::builder().absolute_targets().build();
    let mut bench = TestBench::new(|edit| Ok(codec.add_last(edit, "http").map(drop)?));
    drop(bench.write(full(Method::GET, "http://a/b", "")));
    assert_eq!(bench.sent(), "GET http://a/b HTTP/1.1\r\nhost: a\r\n\r\n");
}

#[test]
fn h03_requests_that_cannot_be_sent_are_refused() {
    let mut bench = TestBench::client();
    assert!(bench.write_refused(full(Method::GET, "/a", "")).contains("neither a Host"));
    let mut head = RequestHead::new(Method::CONNECT, "/".parse().unwrap(), BodyFraming::None);
    head.headers_mut().insert("host", HeaderValue::from_static("b"));
    assert!(bench.write_refused(head).contains("CONNECT"));
    assert!(bench.write_refused(Bytes::from_static(b"x")).contains("no head"));
    assert!(bench.write_refused(BodyEnd::default()).contains("no head"));
    assert!(bench.is_open() && bench.sent().is_empty());
    let uri: http::Uri = "http://a/".parse().unwrap();
    drop(bench.write(RequestHead::new(Method::POST, uri.clone(), BodyFraming::Length(2))));
    assert!(bench.write_refused(Bytes::from_static(b"xyz")).contains("more bytes"));
    assert!(!bench.is_open());
    let mut bench = TestBench::client();
    drop(bench.write(RequestHead::new(Method::POST, uri.clone(), BodyFraming::Length(2))));
    assert!(bench.write_refused(BodyEnd::default()).contains("2 bytes before"));
    assert!(!bench.is_open());
    let mut bench = TestBench::client();
    drop(bench.write(RequestHead::new(Method::POST, uri.clone(), BodyFraming::Chunked)));
    let second = RequestHead::new(Method::GET, uri, BodyFraming::None);
    assert!(bench.write_refused(second).contains("write BodyEnd"));
    assert!(!bench.is_open());
}

#[test]
fn h01_responses_come_as_parts_in_the_order_of_the_requests() {
    let mut bench = TestBench::client();
    for method in [Method::GET, Method::HEAD, Method::POST, Method::GET] {
        drop(bench.write(full(method, "http://a/", "")));
    }
    let answers = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi\
         HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\
         HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\n\
         HTTP/1.1 204 No Content\r\n\r\n";
    assert_eq!(
        bench.send(answers),
        [
            "103 None",
            "200 Length(2)",
            "\"hi\"",
            "end",
            "200 None",
            "end",
            "200 Chunked",
            "\"a\"",
            "end with 1 trailers",
            "204 None",
            "end",
        ]
    );
    assert!(bench.is_open() && bench.events().is_empty());
}

#[test]
fn h04_a_body_until_the_end_of_the_connection() {
    let mut bench = asked(Method::GET);
    assert_eq!(bench.send("HTTP/1.0 200 OK\r\n\r\nhel"), ["200 UntilClose", "\"hel\""]);
    assert_eq!(bench.send("lo"), ["\"lo\""]);
    bench.channel.finish_inbound();
    assert_eq!(bench.messages(), ["end"]);
    assert!(!bench.is_open() && bench.events().is_empty());
}

#[test]
fn h04_a_client_closes_after_the_last_response() {
    let mut bench = asked(Method::GET);
    drop(bench.write(full(Method::GET, "http://a/", "")));
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(bench.send(answer), ["200 Length(0)", "end"]);
    assert!(!bench.is_open());
    assert_eq!(
        bench.events(),
        ["error: the connection ended, and 1 requests have no answer"],
        "the second request"
    );

    let mut bench = TestBench::client();
    let mut last = full(Method::GET, "http://a/", "");
    last.request.headers_mut().insert("connection", HeaderValue::from_static("close"));
    drop(bench.write(last));
    assert!(bench.sent().contains("connection: close"));
    assert!(bench.write_refused(full(Method::GET, "http://a/", "")).contains("no more messages"));
    assert_eq!(bench.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").len(), 2);
    assert!(!bench.is_open() && bench.events().is_empty());
}

#[test]
fn h03_responses_that_cannot_be_read_close_the_channel() {
    let limits = MessageLimits::default().max_body_bytes(4);
    let cases = [
        ("HTTP/1.1 200 OK\n", "malformed message: a line"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "the body has 5 bytes"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nxy", "2 bytes came that answer no request"),
    ];
    for (bytes, error) in cases {
        let codec = HttpClientCodec::builder().limits(limits).build();
        let mut bench = TestBench::new(|edit| Ok(codec.add_last(edit, "http").map(drop)?));
        drop(bench.write(full(Method::GET, "http://a/", "")));
        let _ = bench.send(bytes);
        let events = bench.events();
        assert!(events[0].starts_with(&format!("error: {error}")), "{events:?}");
        assert!(!bench.is_open() && bench.close_cause().starts_with(error));
    }
}

#[test]
fn h03_an_end_in_the_middle_of_a_response_is_an_error() {
    let cases = [
        ("", "the connection ended, and 1 requests have no answer"),
        ("HTTP/1.1 200", "malformed message"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "malformed message"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "malformed message"),
    ];
    for (bytes, error) in cases {
        let mut bench = asked(Method::GET);
        if !bytes.is_empty() {
            let _ = bench.send(bytes);
        }
        bench.channel.finish_inbound();
        let events = bench.events();
        assert_eq!(events.len(), 1, "{bytes}: {events:?}");
        assert!(events[0].starts_with(&format!("error: {error}")), "{bytes}: {events:?}");
        assert!(!bench.is_open());
    }
    let mut bench = TestBench::client();
    bench.channel.finish_inbound();
    assert!(bench.events().is_empty() && !bench.is_open(), "nothing was asked for");
}
