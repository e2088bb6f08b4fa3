//! Servers of HTTP/1 and HTTP/2.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame};
use waterwheel_channel::{Channel, ChannelOptions, sleep};

use crate::http_bench::{
    HttpBench, LocalBody, MINUTE, SECOND, address, ask, connect_http2, describe, received,
    response, serve_http1, serve_http2,
};

#[test]
fn a04_http1_requests_of_one_connection_are_answered_in_order() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| serve_http1(connection, describe));
    let peer = bench.connect_peer();
    peer.send(
        "GET /one HTTP/1.1\r\nHost: a\r\n\r\nPOST /two HTTP/1.1\r\nContent-Length: 5\r\n\r\nhe",
    );
    bench.run();
    peer.send("lloGET /three HTTP/1.1\r\n\r\n");
    bench.run();
    let answers = received(&peer);
    let bodies: Vec<_> = answers.split("\r\n\r\n").skip(1).collect();
    assert!(bodies[0].starts_with("GET /one 0HTTP/1.1 200 OK\r\n"), "{answers}");
    assert!(bodies[1].starts_with("POST /two 5HTTP/1.1 200 OK\r\n"), "{answers}");
    assert_eq!(bodies[2], "GET /three 0");
    assert!(!peer.is_ended(), "the connection is kept");
    peer.finish();
    bench.run();
    assert!(peer.is_ended());
}

#[test]
fn a04_http2_streams_are_answered_when_their_service_is_done() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| {
        serve_http2(connection, |request| async move {
            sleep(if request.uri().path() == "/slow" { 2 * SECOND } else { SECOND }).await;
            describe(request).await
        })
    });
    let client = bench.client();
    let requests = bench.spawn(connect_http2(client)).take().unwrap();
    let (mut first, mut second) = (requests.clone(), requests);
    let slow = bench.spawn(async move { ask(&mut first, "/slow").await.unwrap() });
    let quick = bench.spawn(async move { ask(&mut second, "/quick").await.unwrap() });
    bench.advance(SECOND);
    assert_eq!(quick.take().unwrap(), "GET /quick 0");
    assert!(slow.borrow().is_none());
    bench.advance(SECOND);
    assert_eq!(slow.take().unwrap(), "GET /slow 0");
}

#[test]
fn a04_a_head_that_does_not_come_in_time_ends_its_connection() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| serve_http1(connection, describe));
    let peer = bench.connect_peer();
    peer.send("GET /one HTTP/1.1\r\nHost:");
    bench.run();
    bench.advance(30 * SECOND - std::time::Duration::from_nanos(1)); // hyper's default.
    assert!(!peer.is_ended());
    bench.advance(std::time::Duration::from_nanos(1));
    assert!(peer.is_ended());
    let reports = bench.reports().take_texts();
    assert!(reports.len() == 1 && reports[0].contains("timeout"), "{reports:?}");
}

#[test]
fn a04_a_peer_of_http2_that_answers_no_ping_loses_its_connection() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| serve_http2(connection, describe));
    let peer = bench.connect_peer();
    peer.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_bytes().to_vec());
    // A stream that is open, without which hyper sends no ping: POST / to `a`.
    peer.send(b"\0\0\x06\x01\x04\0\0\0\x01\x83\x84\x86\x41\x01\x61".to_vec());
    bench.run();
    received(&peer);
    bench.advance(10 * SECOND);
    assert!(!peer.is_ended());
    bench.advance(SECOND);
    assert!(peer.is_ended());
    let reports = bench.reports().take_texts();
    assert!(reports.len() == 1 && reports[0].contains("http2 error"), "{reports:?}");
}

#[test]
fn a04_a_request_body_is_read_only_as_fast_as_the_service_takes_it() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| {
        serve_http1(connection, |request| async move {
            sleep(MINUTE).await;
            describe(request).await
        })
    });
    let channel = connect_channel(&mut bench);
    channel.send(Bytes::from_static(b"POST /upload HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n"));
    (0..1000).for_each(|_| channel.send(Bytes::from_static(&[0; 10_000])));
    bench.run();
    let unread = channel.pending_bytes();
    assert!(unread > 9_000_000, "{unread} of ten million bytes were not read");
    bench.advance(MINUTE);
    assert_eq!(channel.pending_bytes(), 0);
}

/// Returns a client's channel that does not read.
fn connect_channel(bench: &mut HttpBench) -> Channel {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let channel = bench.client().options(options).connect(address());
    bench.run();
    channel.join().expect("the server accepts")
}

/// A body without an end, which counts its frames.
struct EndlessBody(Rc<Cell<usize>>);

impl Body for EndlessBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.set(self.0.get() + 1);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1000])))))
    }
}

thread_local! {
    static FRAMES: Rc<Cell<usize>> = Rc::default();
}

#[test]
fn a04_a_response_body_waits_for_a_peer_that_does_not_read() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| {
        serve_http1(connection, |_| async {
            let body: LocalBody = Box::pin(EndlessBody(FRAMES.with(Clone::clone)));
            Ok(Response::new(body))
        })
    });
    let channel = connect_channel(&mut bench);
    channel.send(Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n"));
    bench.run();
    let produced = FRAMES.with(|frames| frames.get());
    assert!((64..2000).contains(&produced), "{produced} frames of 1000 bytes");
    bench.run();
    assert_eq!(FRAMES.with(|frames| frames.get()), produced, "nothing more without room");
    channel.read();
    bench.run();
    assert!(FRAMES.with(|frames| frames.get()) > produced);
}

#[test]
fn a04_a_panic_of_a_service_closes_its_connection_only() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| {
        serve_http1(connection, |request| async move {
            assert_ne!(request.uri().path(), "/panic", "a service that panics");
            response("fine")
        })
    });
    let (one, other) = (bench.connect_peer(), bench.connect_peer());
    one.send("GET /panic HTTP/1.1\r\n\r\n");
    other.send("GET / HTTP/1.1\r\n\r\n");
    bench.run();
    assert!(one.is_ended());
    assert_eq!(received(&one), "");
    assert!(received(&other).ends_with("fine"));
    assert!(!other.is_ended());
    let panics = bench.reports().take_panics();
    assert_eq!(panics.len(), 1, "{panics:?}");
}

#[test]
fn a04_a_panic_of_an_http2_service_resets_its_stream_only() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| {
        serve_http2(connection, |request| async move {
            assert_ne!(request.uri().path(), "/panic", "a service that panics");
            response("fine")
        })
    });
    let client = bench.client();
    let mut requests = bench.spawn(connect_http2(client)).take().unwrap();
    let answers = bench.spawn(async move {
        (ask(&mut requests, "/panic").await, ask(&mut requests, "/").await.unwrap())
    });
    let (panicked, answer) = answers.take().unwrap();
    assert!(panicked.is_err());
    assert_eq!(answer, "fine");
    assert_eq!(bench.reports().take_panics().len(), 1);
}
