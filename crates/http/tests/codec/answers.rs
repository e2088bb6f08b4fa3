//! Answers as bytes.

use std::io::Write;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use waterwheel_channel::FileRegion;
use waterwheel_http::{BodyEnd, BodyFraming, FullResponse, RefuseRequest, ResponseHead};

use crate::test_bench::TestBench;

fn asked(request: &str) -> TestBench {
    let mut bench = TestBench::server();
    assert_eq!(bench.send(request).len(), 2);
    bench
}

fn get() -> TestBench {
    asked("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn ok(framing: BodyFraming) -> ResponseHead {
    ResponseHead::new(StatusCode::OK, framing)
}

/// Writes an answer of two pieces with trailers.
fn write_parts(bench: &mut TestBench, head: ResponseHead) -> String {
    drop(bench.write(head));
    drop(bench.write(Bytes::from_static(b"hel")));
    drop(bench.write(Bytes::new()));
    drop(bench.write(Bytes::from_static(b"lo")));
    let mut trailers = HeaderMap::new();
    trailers.insert("x", HeaderValue::from_static("y"));
    bench.write(BodyEnd { trailers: Some(Box::new(trailers)) }).join().unwrap();
    bench.sent()
}

#[test]
fn h01_an_answer_in_parts_is_framed_by_its_head() {
    let sized = write_parts(&mut get(), ok(BodyFraming::Length(5)));
    assert_eq!(sized, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let chunked = write_parts(&mut get(), ok(BodyFraming::Chunked));
    assert_eq!(
        chunked,
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
         3\r\nhel\r\n2\r\nlo\r\n0\r\nx: y\r\n\r\n"
    );
    let until_close = write_parts(&mut get(), ok(BodyFraming::UntilClose));
    assert_eq!(until_close, chunked, "HTTP/1.1 has chunks for it");
}

#[test]
fn h04_answers_to_clients_of_http10() {
    let old = || asked("GET / HTTP/1.0\r\n\r\n");
    let mut bench = old();
    let chunked = write_parts(&mut bench, ok(BodyFraming::Chunked));
    assert_eq!(chunked, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello");
    assert!(bench.write_refused(ok(BodyFraming::None)).contains("no more messages"));
    let mut kept = asked("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let sized = write_parts(&mut kept, ok(BodyFraming::Length(5)));
    assert_eq!(
        sized,
        "HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello"
    );
    assert_eq!(kept.send("GET / HTTP/1.0\r\n\r\n").len(), 2);
    drop(kept.write(ResponseHead::new(StatusCode::EARLY_HINTS, BodyFraming::None)));
    assert_eq!(kept.sent(), "", "HTTP/1.0 knows no interim answers");
}

#[test]
fn h04_answers_without_a_body_drop_it() {
    let mut head = asked("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let sent = write_parts(&mut head, ok(BodyFraming::Length(5)));
    assert_eq!(sent, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
    for (status, start) in [(204, "204 No Content"), (304, "304 Not Modified")] {
        let status = StatusCode::from_u16(status).unwrap();
        let sent = write_parts(&mut get(), ResponseHead::new(status, BodyFraming::Chunked));
        assert_eq!(sent, format!("HTTP/1.1 {start}\r\n\r\n"));
    }
    let mut bench = get();
    let full = http::Response::builder().status(304).body(Bytes::from_static(b"hello")).unwrap();
    drop(bench.write(FullResponse::from(full)));
    assert_eq!(bench.sent(), "HTTP/1.1 304 Not Modified\r\n\r\n");
}

#[test]
fn h01_interim_answers_go_before_the_answer() {
    let mut bench = get();
    let mut hints = ResponseHead::new(StatusCode::EARLY_HINTS, BodyFraming::None);
    hints.headers.insert("link", HeaderValue::from_static("</a>"));
    bench.write(hints).join().unwrap();
    let interim = http::Response::builder().status(102).body(Bytes::new()).unwrap();
    bench.write(FullResponse::from(interim)).join().unwrap();
    assert_eq!(
        bench.sent(),
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
    );
    let sent = write_parts(&mut bench, ok(BodyFraming::Length(5)));
    assert!(sent.starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn h01_a_whole_answer_may_have_trailers() {
    let mut bench = get();
    let mut trailers = HeaderMap::new();
    trailers.insert("x", HeaderValue::from_static("y"));
    let response = http::Response::new(Bytes::from_static(b"hello"));
    drop(bench.write(FullResponse { response, trailers: Some(Box::new(trailers)) }));
    assert_eq!(
        bench.sent(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n"
    );
}

#[test]
fn h13_an_answer_has_one_date() {
    let mut bench = get();
    drop(bench.write(FullResponse::from(http::Response::new(Bytes::new()))));
    let bytes = bench.channel.read_outbound::<Bytes>().unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let dates: Vec<_> = text.split("\r\n").filter_map(|line| line.strip_prefix("date: ")).collect();
    assert_eq!(dates.len(), 1);
    assert!(httpdate::parse_http_date(dates[0]).is_ok());
}

#[test]
fn h08_a_part_of_a_file_is_a_part_of_the_body() {
    let path = std::env::temp_dir().join(format!("waterwheel-codec-{}", std::process::id()));
    let mut file = std::fs::File::create_new(&path).unwrap();
    file.write_all(b"hello").unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let region = FileRegion::whole(file).unwrap();
    for (framing, before, after) in [
        (BodyFraming::Length(5), "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", ""),
        (
            BodyFraming::Chunked,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n",
            "\r\n0\r\n\r\n",
        ),
    ] {
        let mut bench = get();
        drop(bench.write(ok(framing)));
        bench.write(region.clone()).join().unwrap();
        drop(bench.write(BodyEnd::default()));
        assert_eq!(bench.sent(), format!("{before}hello{after}"));
    }
}

#[test]
fn h03_a_body_that_differs_from_its_length_cuts_the_connection_off() {
    let mut bench = get();
    drop(bench.write(ok(BodyFraming::Length(3))));
    let error = bench.write_refused(Bytes::from_static(b"hello"));
    assert_eq!(error, "the body has more bytes than the 3 of its Content-Length");
    assert_eq!(bench.sent(), "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n");
    assert!(!bench.is_open());

    let mut bench = get();
    drop(bench.write(ok(BodyFraming::Length(3))));
    drop(bench.write(Bytes::from_static(b"he")));
    let error = bench.write_refused(BodyEnd::default());
    assert_eq!(error, "the body ended 1 bytes before its Content-Length");
    assert_eq!(bench.close_cause(), error);
}

#[test]
fn h04_parts_out_of_turn_are_refused() {
    let mut bench = TestBench::server();
    let error = bench.write_refused(ok(BodyFraming::None));
    assert_eq!(error, "status 200 OK was written, and no request waits for an answer");
    assert!(bench.write_refused(Bytes::from_static(b"x")).contains("no head before it"));
    assert!(bench.write_refused(BodyEnd::default()).contains("no head before it"));
    let too_large = waterwheel_http::MessageError::BodyTooLarge { length: 9, limit: 8 };
    assert!(bench.write_refused(RefuseRequest(too_large)).contains("no head before it"));
    assert!(bench.is_open() && bench.sent().is_empty(), "nothing was written");

    let mut bench = get();
    drop(bench.write(ok(BodyFraming::Chunked)));
    assert!(bench.write_refused(ok(BodyFraming::Chunked)).contains("write BodyEnd"));
    assert!(!bench.is_open(), "the answer that had begun cannot be completed");
}

#[test]
fn h03_framing_and_connection_are_the_codecs_whatever_the_fields_say() {
    let mut bench = get();
    let mut head = ok(BodyFraming::Length(0));
    head.headers.insert("content-length", HeaderValue::from_static("7"));
    head.headers.insert("transfer-encoding", HeaderValue::from_static("chunked"));
    head.headers.insert("connection", HeaderValue::from_static("close, x"));
    drop(bench.write(head));
    drop(bench.write(BodyEnd::default()));
    assert_eq!(
        bench.sent(),
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        "a handler ends the connection by the field"
    );
    assert!(bench.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_empty());
}
