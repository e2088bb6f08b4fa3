//! How connections end.

use std::time::Duration;

use waterwheel_http::{BodyError, Request};

use crate::bench::Bench;

async fn echo(request: Request) -> Result<bytes::Bytes, BodyError> {
    request.into_body().collect(100).await
}

#[test]
fn h02_a_refused_request_has_one_answer_and_nothing_behind_it_is_answered() {
    let mut bench = Bench::new(echo);
    let answer = bench.send("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        answer,
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\
         content-length: 44\r\n\r\nmalformed message: the Host field is missing\n"
            .replace("44", &"malformed message: the Host field is missing\n".len().to_string())
    );
    assert!(bench.is_open(), "waits for the end of the client");
    assert_eq!(bench.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "");
    bench.channel.finish_inbound();
    bench.channel.run();
    assert!(!bench.is_open());
}

#[test]
fn h02_a_client_that_does_not_finish_is_closed_after_the_linger_time() {
    let mut bench = Bench::new(echo);
    assert!(bench.send("x y z\r\n").starts_with("HTTP/1.1 400"));
    bench.advance(Duration::from_millis(4_990));
    assert!(bench.is_open());
    bench.advance(Duration::from_millis(20));
    assert!(!bench.is_open());
}

#[test]
fn h03_a_malformed_body_is_answered_in_place_of_the_service() {
    let mut bench = Bench::new(echo);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(bench.send(format!("{head}1\r\na\r\n")), "");
    let answer = bench.send("x\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1);
}

#[test]
fn h04_a_body_is_echoed_and_the_connection_goes_on() {
    let mut bench = Bench::new(echo);
    for _ in 0..2 {
        let answer = bench.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(answer, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
    }
    assert_eq!(
        bench.send(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        ),
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    assert_eq!(bench.send("hi"), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
}

#[test]
fn h05_a_slow_head_is_answered_with_408_and_an_idle_connection_is_closed() {
    let mut bench = Bench::new(echo);
    bench.send("GET / HT");
    assert_eq!(bench.advance(Duration::from_millis(9_990)), "");
    assert!(bench.advance(Duration::from_millis(20)).starts_with("HTTP/1.1 408 "));
    let mut bench = Bench::new(echo);
    assert_eq!(bench.advance(Duration::from_millis(74_990)), "");
    assert!(bench.is_open());
    assert_eq!(bench.advance(Duration::from_millis(20)), "");
    assert!(!bench.is_open());
}

#[test]
fn h12_a_drain_does_not_lose_an_answer_that_waits_for_room() {
    let large = async |_: Request| vec![b'x'; 1 << 20];
    let mut bench = Bench::new(large);
    bench.channel.set_room(1000);
    let first = bench.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    bench.channel.fire_user_event(waterwheel_channel::Draining {
        deadline: waterwheel_executor::Nanos::MAX,
    });
    bench.channel.clear_faults();
    bench.channel.set_room(usize::MAX);
    bench.channel.run();
    let rest = bench.received();
    assert!(first.len() + rest.len() > 1 << 20, "{} and {} bytes", first.len(), rest.len());
}
