//! Requests as messages.

use http::StatusCode;
use waterwheel_http::{BodyFraming, FullResponse, HttpServerCodec, MessageLimits, ResponseHead};

use crate::test_bench::TestBench;

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

fn empty(status: u16) -> FullResponse {
    let response = http::Response::builder().status(status);
    FullResponse::from(response.body(bytes::Bytes::new()).unwrap())
}

#[test]
fn h01_a_request_is_a_head_its_body_and_an_end() {
    let mut bench = TestBench::server();
    assert_eq!(bench.send(GET), ["GET /a None", "end"]);
    let sized = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel";
    assert_eq!(bench.send(sized), ["POST /b Length(5)", "\"hel\""]);
    assert_eq!(bench.send("lo"), ["\"lo\"", "end"]);
    let chunks = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(bench.send(chunks), ["POST /c Chunked"]);
    let rest = bench.send("2\r\nhi\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n");
    assert_eq!(rest, ["\"hi\"", "\"!\"", "end with 1 trailers"]);
}

#[test]
fn h04_no_more_requests_are_in_flight_than_the_limit_allows() {
    let codec = HttpServerCodec::builder().max_pipelined(2).build().unwrap();
    let mut bench = TestBench::of_server(codec);
    assert_eq!(bench.send(GET.repeat(4)), ["GET /a None", "end", "GET /a None", "end"]);
    assert!(bench.send(GET).is_empty(), "reads are paused");
    assert_eq!(bench.channel.unread(), 1);
    drop(bench.write(empty(200)));
    assert_eq!(bench.messages(), ["GET /a None", "end"], "there is room for one");
    for _ in 0..3 {
        drop(bench.write(empty(200)));
    }
    assert_eq!(bench.messages().len(), 4, "what was kept, and what was not read");
    assert_eq!(bench.sent().matches("HTTP/1.1 200").count(), 4);
}

#[test]
fn h06_no_request_begins_while_the_channel_is_not_writable() {
    let mut bench = TestBench::server();
    assert_eq!(bench.send(GET).len(), 2);
    bench.channel.set_room(0);
    let body = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    drop(bench.write(FullResponse::from(http::Response::new(body))));
    assert!(!bench.channel.channel().is_writable());
    assert!(bench.send(GET).is_empty());
    bench.channel.clear_faults();
    bench.channel.run();
    assert_eq!(bench.messages(), ["GET /a None", "end"]);
}

#[test]
fn h02_a_refused_request_is_answered_after_those_before_it() {
    let mut bench = TestBench::server();
    let bytes = format!("{GET}GET / HTTP/1.1\r\n\r\n{GET}");
    assert_eq!(bench.send(bytes), ["GET /a None", "end"]);
    assert_eq!(bench.events(), ["refused: malformed message: the Host field is missing"]);
    assert_eq!(bench.sent(), "", "the first answer is missing");
    drop(bench.write(empty(404)));
    assert_eq!(
        bench.sent(),
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n\
         HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
         connection: close\r\ncontent-length: 45\r\n\r\n\
         malformed message: the Host field is missing\n"
    );
    assert!(bench.write_refused(empty(200)).contains("no more messages"));
    assert!(bench.send(GET).is_empty());
    assert!(bench.is_open(), "waits for the end of the client");
}

#[test]
fn h02_every_limit_of_a_request_has_its_status() {
    let limits = MessageLimits::default()
        .max_head_bytes(100)
        .max_field_lines(2)
        .max_body_bytes(10)
        .max_extension_bytes(8);
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cases = [
        (format!("GET /{} HTTP/1.1\r\n", "a".repeat(100)), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n", "a".repeat(100)), 431),
        ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\nY:\r\n\r\n".to_owned(), 431),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n".to_owned(), 413),
        (format!("{chunked}b\r\n"), 413),
        (format!("{chunked}1;aaaaaaaaaaaa\r\n"), 431),
        ("GET / HTTP/2.0\r\n".to_owned(), 505),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_owned(), 501),
        ("G\0T / HTTP/1.1\r\n".to_owned(), 400),
    ];
    for (bytes, status) in cases {
        let codec = HttpServerCodec::builder().limits(limits).build().unwrap();
        let mut bench = TestBench::of_server(codec);
        let _ = bench.send(&bytes);
        let sent = bench.sent();
        assert!(sent.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes}: {sent}");
        assert!(sent.contains("connection: close\r\n"), "{sent}");
        assert_eq!(bench.events().len(), 1);
    }
}

#[test]
fn h02_a_body_that_turns_out_malformed_is_refused_unless_its_answer_has_begun() {
    let chunks = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
    let mut bench = TestBench::server();
    assert_eq!(bench.send(chunks).len(), 2);
    assert!(bench.send("x\r\n").is_empty());
    assert!(bench.sent().starts_with("HTTP/1.1 400 "));
    assert!(bench.is_open());

    let mut bench = TestBench::server();
    let _ = bench.send(chunks);
    drop(bench.write(ResponseHead::new(StatusCode::OK, BodyFraming::Length(5))));
    let _ = bench.send("x\r\n");
    assert!(!bench.is_open(), "the client sees that the answer is not complete");
    assert!(bench.close_cause().contains("malformed"), "{}", bench.close_cause());

    let mut bench = TestBench::server();
    let _ = bench.send(chunks);
    drop(bench.write(empty(200)));
    assert_eq!(bench.sent(), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let _ = bench.send("x\r\n");
    assert_eq!(bench.sent(), "", "the request is answered already");
    assert!(bench.is_open(), "waits for the end of the client");
}

#[test]
fn h04_go_on_is_said_once_in_its_turn_and_only_if_the_client_waits() {
    let post = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    let mut bench = TestBench::server();
    assert_eq!(bench.send(format!("{GET}{post}")).len(), 3);
    drop(bench.write(ResponseHead::go_on()));
    assert_eq!(bench.sent(), "", "the request before has no answer");
    drop(bench.write(empty(204)));
    assert_eq!(bench.sent(), format!("HTTP/1.1 204 No Content\r\n\r\n{go_on}"));
    drop(bench.write(ResponseHead::go_on()));
    assert_eq!(bench.sent(), "", "once");
    assert_eq!(bench.send("x"), ["\"x\"", "end"]);
    drop(bench.write(empty(200)));
    assert!(!bench.sent().contains("close"));

    assert_eq!(bench.send(format!("{post}x")).len(), 3, "sent without waiting");
    drop(bench.write(ResponseHead::go_on()));
    assert_eq!(bench.sent(), "");
    drop(bench.write(empty(200)));
    assert!(!bench.sent().contains("close"));

    let _ = bench.send(post);
    drop(bench.write(empty(403)));
    let refused = "HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(bench.sent(), refused, "the body may come or not");
}

#[test]
fn h04_go_on_by_itself_if_the_body_is_not_at_hand() {
    let codec = HttpServerCodec::builder().continue_by_itself().build().unwrap();
    let mut bench = TestBench::of_server(codec);
    let post = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
    let _ = bench.send(format!("{post}x"));
    assert_eq!(bench.sent(), "");
    let _ = bench.send(post);
    assert_eq!(bench.sent(), "", "its turn has not come");
    drop(bench.write(empty(204)));
    assert_eq!(bench.sent(), "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
    let http10 = "POST /b HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
    let mut bench =
        TestBench::of_server(HttpServerCodec::builder().continue_by_itself().build().unwrap());
    let _ = bench.send(http10);
    assert_eq!(bench.sent(), "", "HTTP/1.0 knows no interim answers");
}

#[test]
fn h04_the_rest_of_a_body_that_is_answered_already_is_skipped_up_to_a_limit() {
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut bench = TestBench::server();
    let _ = bench.send(chunked);
    drop(bench.write(empty(200)));
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    assert_eq!(bench.send(&chunk).len(), 1, "handlers may want it all the same");
    assert_eq!(bench.send(&chunk).len(), 1);
    assert!(bench.send(&chunk).is_empty(), "more than 64 KiB");
    assert!(bench.send(GET).is_empty(), "the connection is ending");
    let mut bench = TestBench::server();
    let _ = bench.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n");
    drop(bench.write(empty(200)));
    assert!(bench.sent().contains("connection: close"));
}
