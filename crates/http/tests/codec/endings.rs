//! How connections end.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use waterwheel_channel::{Ctx, Draining, Handler, HandlerResult, Msg};
use waterwheel_executor::Nanos;
use waterwheel_http::{BodyEnd, BodyFraming, FullResponse, HttpServerCodec, ResponseHead};

use crate::test_bench::TestBench;

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST: &str = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const DRAINING: Draining = Draining { deadline: Nanos(u64::MAX) };

fn empty() -> FullResponse {
    FullResponse::from(http::Response::new(Bytes::new()))
}

const KEPT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const CLOSED: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

#[test]
fn h04_the_last_request_is_the_last_one() {
    let mut bench = TestBench::server();
    assert_eq!(bench.send(format!("{GET}{LAST}{GET}")).len(), 4);
    drop(bench.write(empty()));
    drop(bench.write(empty()));
    assert_eq!(bench.sent(), format!("{KEPT}{CLOSED}"));
    assert!(bench.is_open(), "no RST overtakes the answer");
    assert!(bench.send(GET).is_empty());
    bench.channel.finish_inbound();
    assert!(!bench.is_open());
}

#[test]
fn h04_a_client_that_does_not_finish_is_ended_after_a_while() {
    let codec = HttpServerCodec::builder().linger(Duration::from_secs(2)).build().unwrap();
    let mut bench = TestBench::of_server(codec);
    let _ = bench.send(LAST);
    drop(bench.write(empty()));
    bench.channel.advance(Duration::from_millis(1999));
    assert!(bench.is_open());
    bench.channel.advance(Duration::from_millis(1));
    assert!(!bench.is_open());
}

#[test]
fn h05_a_client_that_reads_slowly_gets_the_last_answer_and_one_that_stalls_is_ended() {
    let mut bench = TestBench::server();
    let _ = bench.send(LAST);
    bench.channel.set_room(0);
    let body = Bytes::from(vec![b'x'; 4000]);
    drop(bench.write(FullResponse::from(http::Response::new(body))));
    for _ in 0..3 {
        bench.channel.advance(Duration::from_secs(4));
        bench.channel.set_room(1000);
        bench.channel.run();
        assert!(bench.is_open());
    }
    bench.channel.advance(Duration::from_secs(5));
    bench.channel.advance(Duration::from_secs(5));
    assert!(!bench.is_open());
    assert_eq!(bench.sent().len(), 3000 - "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".len());
}

#[test]
fn h04_a_client_that_has_finished_gets_its_answers() {
    let mut bench = TestBench::server();
    assert_eq!(bench.send(GET.repeat(2)).len(), 4);
    bench.channel.finish_inbound();
    assert!(bench.is_open());
    drop(bench.write(empty()));
    assert!(bench.is_open());
    drop(bench.write(empty()));
    assert_eq!(bench.sent(), KEPT.repeat(2));
    assert!(!bench.is_open());
}

#[test]
fn h04_requests_that_waited_for_room_are_answered_after_the_end_of_the_input() {
    let codec = HttpServerCodec::builder().max_pipelined(1).build().unwrap();
    let mut bench = TestBench::of_server(codec);
    assert_eq!(bench.send(GET.repeat(3)).len(), 2);
    bench.channel.finish_inbound();
    for left in [2, 2, 0] {
        drop(bench.write(empty()));
        assert_eq!(bench.messages().len(), left);
    }
    assert_eq!(bench.sent(), KEPT.repeat(3));
    assert!(!bench.is_open());
}

/// Passes bytes on that a handler before the codec has kept, whether reads are paused or not.
struct LateBytes;

impl Handler for LateBytes {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.take::<String>() {
            Ok(text) => ctx.fire_read(Bytes::from(text)),
            Err(other) => ctx.fire_user_event(other),
        }
        Ok(())
    }
}

#[test]
fn h04_a_head_that_was_completed_while_the_client_did_not_read_is_no_cut_one() {
    let mut bench = TestBench::new(|edit| {
        edit.add_last("late", LateBytes)?;
        HttpServerCodec::default().add_last(edit, "http")?;
        Ok(())
    });
    let (begin, end) = GET.split_at(20);
    assert_eq!(bench.send(format!("{GET}{begin}")).len(), 2);
    bench.channel.finish_inbound();
    bench.channel.set_room(0);
    let body = Bytes::from(vec![b'x'; 1 << 20]);
    drop(bench.write(ResponseHead::new(StatusCode::OK, BodyFraming::Length(1 << 20))));
    drop(bench.write(body));
    bench.channel.fire_user_event(end.to_owned());
    drop(bench.write(BodyEnd::default()));
    assert!(bench.messages().is_empty() && bench.events().is_empty(), "there is no room");
    bench.channel.clear_faults();
    bench.channel.run();
    assert_eq!(bench.messages(), ["GET /a None", "end"]);
    drop(bench.write(empty()));
    assert!(bench.sent().ends_with(KEPT) && !bench.is_open());
}

#[test]
fn h02_a_request_that_is_cut_short_is_refused() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel";
    for bytes in ["GET / HT", "GET / HTTP/1.1\r\nHost: a\r\n", post] {
        let mut bench = TestBench::server();
        let _ = bench.send(bytes);
        bench.channel.finish_inbound();
        assert!(bench.sent().starts_with("HTTP/1.1 400 "), "{bytes}");
        assert!(!bench.is_open());
        assert_eq!(bench.events().len(), 1);
    }
    let mut bench = TestBench::server();
    let _ = bench.send(format!("{GET}GET / HT"));
    bench.channel.finish_inbound();
    assert_eq!(bench.sent(), "", "its turn has not come");
    drop(bench.write(empty()));
    let sent = bench.sent();
    assert!(sent.starts_with(KEPT) && sent.contains("HTTP/1.1 400 "), "{sent}");
    assert!(!bench.is_open());
}

#[test]
fn h04_an_idle_client_that_finishes_is_closed() {
    let mut bench = TestBench::server();
    let _ = bench.send(GET);
    drop(bench.write(empty()));
    bench.channel.finish_inbound();
    assert!(!bench.is_open());
}

#[test]
fn h12_a_drain_closes_idle_connections_at_once() {
    let mut bench = TestBench::server();
    bench.channel.fire_user_event(DRAINING);
    assert!(!bench.is_open());
    let mut bench = TestBench::server();
    let _ = bench.send(GET);
    drop(bench.write(empty()));
    bench.channel.fire_user_event(DRAINING);
    assert!(!bench.is_open());
}

/// Bytes that the transport has no room for are lost with a close.
#[test]
fn h04_a_slow_reader_gets_the_whole_answer_after_it_finished_or_in_a_drain() {
    let end: [fn(&mut TestBench); 2] =
        [|bench| bench.channel.finish_inbound(), |bench| bench.channel.fire_user_event(DRAINING)];
    for end in end {
        let mut bench = TestBench::server();
        let _ = bench.send(GET);
        bench.channel.set_room(0);
        let body = Bytes::from(vec![b'x'; 1 << 20]);
        drop(bench.write(FullResponse::from(http::Response::new(body))));
        end(&mut bench);
        assert!(bench.is_open());
        bench.channel.clear_faults();
        bench.channel.run();
        assert!(bench.sent().len() > 1 << 20);
    }
}

#[test]
fn h12_a_drain_waits_for_what_is_in_flight() {
    let mut bench = TestBench::server();
    assert_eq!(bench.send(GET.repeat(2)).len(), 4);
    bench.channel.fire_user_event(DRAINING);
    assert!(bench.send(GET).is_empty(), "nothing begins");
    drop(bench.write(empty()));
    drop(bench.write(empty()));
    assert_eq!(bench.sent(), format!("{KEPT}{CLOSED}"), "the last one says it");
    bench.channel.finish_inbound();
    assert!(!bench.is_open());
}

#[test]
fn h01_a_client_that_vanishes_ends_everything() {
    let mut bench = TestBench::server();
    let _ = bench.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    bench.channel.close();
    assert!(!bench.is_open());
    assert!(bench.channel.write(empty()).join().is_err());
}
