//! Bodies, streamed both ways.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, Method};
use waterwheel_executor::Error;
use waterwheel_http::{Body, BodyChunk, BodyError, BodySource, ClientError};

use crate::support::{Bench, OK_HELLO, SECOND, URL, read_text};

/// An item of a stream: a chunk, an error, or the end.
type FeedItem = Option<Result<Bytes, Error>>;

/// A stream that the test feeds.
#[derive(Clone, Default)]
struct Feed {
    chunks: Rc<RefCell<VecDeque<FeedItem>>>,
    waker: Rc<Cell<Option<Waker>>>,
    length: Option<u64>,
    polls: Rc<Cell<usize>>,
    is_dropped: Rc<Cell<bool>>,
}

impl Feed {
    fn push(&self, bench: &mut Bench, chunk: impl Into<Bytes>) {
        self.put(bench, Some(Ok(chunk.into())));
    }

    fn put(&self, bench: &mut Bench, item: FeedItem) {
        self.chunks.borrow_mut().push_back(item);
        if let Some(waker) = self.waker.take() {
            bench.event_loop.on_loop(|_| waker.wake());
        }
        bench.run();
    }

    fn source(&self) -> FeedSource {
        FeedSource(self.clone())
    }
}

struct FeedSource(Feed);

impl BodySource for FeedSource {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        self.0.polls.set(self.0.polls.get() + 1);
        match self.0.chunks.borrow_mut().pop_front() {
            Some(item) => Poll::Ready(item.map(|item| item.map(BodyChunk::Bytes))),
            None => {
                self.0.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    fn exact_len(&self) -> Option<u64> {
        self.0.length
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        let fields = [(http::HeaderName::from_static("sum"), "9".parse().unwrap())];
        Some(fields.into_iter().collect())
    }
}

impl Drop for FeedSource {
    fn drop(&mut self) {
        self.0.is_dropped.set(true);
    }
}

type Call = crate::support::Running<Result<http::Response<waterwheel_http::Incoming>, ClientError>>;

fn post(bench: &mut Bench, body: impl Into<Body> + 'static) -> Call {
    bench.start(
        move |client| async move { client.request(Method::POST, URL).body(body).send().await },
    )
}

fn post_feed(bench: &mut Bench, feed: &Feed) -> Call {
    let source = feed.source();
    bench.start(move |client| async move {
        client.request(Method::POST, URL).body(Body::from_source(source)).send().await
    })
}

#[test]
fn h11_a_stream_of_unknown_length_is_sent_in_chunks_with_trailers() {
    let (mut bench, feed) = (Bench::new(), Feed::default());
    let call = post_feed(&mut bench, &feed);
    let peer = bench.accept();
    let head = "POST / HTTP/1.1\r\nhost: 192.0.2.1\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(bench.received(&peer), head);
    feed.push(&mut bench, "hello");
    assert_eq!(bench.received(&peer), "5\r\nhello\r\n");
    feed.push(&mut bench, "");
    feed.push(&mut bench, vec![b'x'; 2000]);
    assert_eq!(bench.received(&peer), format!("7d0\r\n{}\r\n", "x".repeat(2000)));
    feed.put(&mut bench, None);
    assert_eq!(bench.received(&peer), "0\r\nsum: 9\r\n\r\n");
    assert!(feed.is_dropped.get());
    bench.send(&peer, OK_HELLO);
    let text = call.take().unwrap();
    let text = bench.start(|_| read_text(text));
    assert_eq!(text.take().unwrap(), "hello");
    assert!(!peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_stream_of_known_length_has_to_keep_it() {
    for (sent, error) in [
        ("hello", None),
        ("hell", Some("the source ended 1 bytes before the length it had announced")),
        ("hello!", Some("the source has more bytes than the length it had announced")),
    ] {
        let mut bench = Bench::new();
        let feed = Feed { length: Some(5), ..Feed::default() };
        let call = post_feed(&mut bench, &feed);
        let peer = bench.accept();
        feed.push(&mut bench, sent);
        feed.put(&mut bench, None);
        match error {
            None => {
                assert!(bench.received(&peer).ends_with("content-length: 5\r\n\r\nhello"));
                bench.send(&peer, OK_HELLO);
                bench.drop_on_loop(call.take().unwrap());
            }
            Some(reason) => {
                let error = call.take().unwrap_err();
                assert!(matches!(error, ClientError::RequestBody { .. }), "{error}");
                assert!(error.to_string().ends_with(reason), "{error}");
                assert!(peer.is_closed() && feed.is_dropped.get());
            }
        }
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_a_source_that_fails_ends_the_connection() {
    let (mut bench, feed) = (Bench::new(), Feed::default());
    let call = post_feed(&mut bench, &feed);
    let peer = bench.accept();
    feed.put(&mut bench, Some(Err(Error::new("disk on fire"))));
    let error = call.take().unwrap_err();
    let text = "the body of the request to 192.0.2.1:80 could not be sent: disk on fire";
    assert_eq!(error.to_string(), text);
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_source_is_polled_while_the_channel_has_room() {
    let (mut bench, feed) = (Bench::new(), Feed::default());
    for _ in 0..100 {
        feed.chunks.borrow_mut().push_back(Some(Ok(Bytes::from(vec![b'x'; 10_000]))));
    }
    feed.chunks.borrow_mut().push_back(None);
    let call = post_feed(&mut bench, &feed);
    let peer = bench.next_connect().unwrap().accept();
    peer.set_limit(0);
    bench.run();
    let polls = feed.polls.get();
    assert!(polls < 20, "{polls} chunks of 10 KB were taken for a peer that reads nothing");
    peer.set_limit(5_000);
    let mut received = 0;
    for _ in 0..1_000_000 / 5_000 + 10 {
        let bytes = bench.received(&peer).len();
        assert!(bytes <= 5_000);
        received += bytes;
    }
    assert!(received > 1_000_000 && feed.is_dropped.get());
    bench.send(&peer, OK_HELLO);
    bench.drop_on_loop(call.take().unwrap());
    bench.assert_nothing_left();
}

#[test]
fn h11_bytes_are_sent_in_short_writes() {
    let mut bench = Bench::new();
    let call = post(&mut bench, vec![b'y'; 300_000]);
    let peer = bench.next_connect().unwrap().accept();
    peer.set_limit(7_777);
    bench.run();
    let mut received = String::new();
    for _ in 0..300_000 / 7_777 + 10 {
        received.push_str(&bench.received(&peer));
    }
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    assert!(head.ends_with("content-length: 300000"));
    assert!(body.len() == 300_000 && body.bytes().all(|byte| byte == b'y'));
    bench.send(&peer, OK_HELLO);
    bench.drop_on_loop(call.take().unwrap());
    assert!(!peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_part_of_a_file_is_a_body() {
    let file = std::fs::File::open("Cargo.toml").unwrap();
    let region = waterwheel_channel::FileRegion::new(file, 1..8).unwrap();
    let mut bench = Bench::new();
    let call = post(&mut bench, Body::file(region));
    let peer = bench.accept();
    assert!(bench.received(&peer).ends_with("content-length: 7\r\n\r\npackage"));
    bench.send(&peer, OK_HELLO);
    bench.drop_on_loop(call.take().unwrap());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_body_that_nobody_reads_stops_the_socket() {
    let mut bench = Bench::new();
    let call = bench.get();
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    bench.send(&peer, vec![b'z'; 1_000_000]);
    assert!(peer.unread() > 500_000, "{} bytes are unread", peer.unread());
    let response = call.take().unwrap();
    let text = bench.start(|_| read_text(response));
    // Each read is one turn.
    for _ in 0..1_000_000 / 64_000 {
        bench.run();
    }
    assert_eq!(text.take().unwrap().len(), 1_000_000);
    assert_eq!((peer.unread(), peer.is_closed()), (0, false));
    bench.assert_nothing_left();
}

#[test]
fn h11_a_connection_is_used_again_before_the_last_bytes_of_its_response_are_read() {
    let mut bench = Bench::new();
    let call = bench.get();
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n");
    bench.send(&peer, vec![b'z'; 65536]);
    let unread = call.take().unwrap();
    let other = bench.get_text(URL);
    assert!(bench.next_connect().is_none());
    bench.send(&peer, OK_HELLO);
    assert_eq!(other.take().unwrap(), "hello");
    let text = bench.start(|_| read_text(unread));
    assert_eq!(text.take().unwrap().len(), 65536);
    bench.assert_nothing_left();
}

#[test]
fn h11_the_short_rest_of_a_dropped_body_is_read_and_a_long_one_ends_the_connection() {
    for (framing, rest, is_kept) in [
        ("Content-Length: 65536", 65536, true),
        ("Content-Length: 65537", 65537, false),
        ("Transfer-Encoding: chunked", 10, false),
        ("Connection: close\r\nContent-Length: 10", 10, false),
    ] {
        let mut bench = Bench::new();
        let call = bench.get();
        let peer = bench.accept();
        bench.send(&peer, format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
        bench.drop_on_loop(call.take().unwrap());
        assert_eq!(peer.is_closed(), !is_kept, "{framing}");
        if is_kept {
            bench.send(&peer, vec![b'x'; rest]);
            let again = bench.get_text(URL);
            assert!(bench.next_connect().is_none());
            // The time for the rest has ended with the rest.
            bench.advance(2 * SECOND);
            bench.send(&peer, OK_HELLO);
            assert_eq!(again.take().unwrap(), "hello");
        }
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_the_rest_of_a_dropped_body_has_a_second() {
    let mut bench = Bench::new();
    let call = bench.get();
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    bench.drop_on_loop(call.take().unwrap());
    bench.send(&peer, "d");
    assert!(!peer.is_closed());
    bench.advance(SECOND);
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_chunks_and_trailers_of_a_response() {
    let mut bench = Bench::new();
    let call = bench.get();
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
    let mut body = call.take().unwrap().into_body();
    assert_eq!(body.exact_len(), None);
    let first = bench.start(|_| async move {
        let chunk = body.chunk().await;
        (chunk, body)
    });
    let (chunk, mut body) = first.take();
    assert_eq!(chunk.unwrap().unwrap(), "ab");
    let rest = bench.start(|_| async move {
        let (chunk, end) = (body.chunk().await, body.chunk().await);
        (chunk, end, body.take_trailers())
    });
    assert!(!rest.is_done());
    bench.send(&peer, "1\r\nc\r\n0\r\nsum: 9\r\n\r\n");
    let (chunk, end, trailers) = rest.take();
    assert!(chunk.unwrap().unwrap() == "c" && end.is_none());
    assert_eq!(trailers.unwrap()["sum"], "9");
    assert!(!peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_body_without_a_length_ends_with_the_connection() {
    let mut bench = Bench::new();
    let call = bench.get_text(URL);
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\n\r\nall of ");
    bench.send(&peer, "it");
    assert!(!call.is_done());
    bench.finish(&peer);
    assert_eq!(call.take().unwrap(), "all of it");
    bench.assert_nothing_left();

    // A reset is no end of a body.
    let mut bench = Bench::new();
    let call = bench.get_text(URL);
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\n\r\nall of ");
    bench.reset(&peer);
    assert_eq!(call.take().unwrap_err(), BodyError::Aborted.to_string());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_response_in_the_middle_of_a_request_ends_it_unless_it_is_successful() {
    for (status, goes_on) in [("413 Too Large", false), ("307 Temporary", false), ("200 OK", true)]
    {
        let (mut bench, feed) = (Bench::new(), Feed::default());
        let call = post_feed(&mut bench, &feed);
        let peer = bench.accept();
        feed.push(&mut bench, "part");
        bench.received(&peer);
        bench.send(&peer, format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n"));
        let response = call.take().unwrap();
        assert_eq!(feed.is_dropped.get(), !goes_on);
        feed.push(&mut bench, "more");
        assert_eq!(bench.received(&peer), if goes_on { "4\r\nmore\r\n" } else { "" });
        bench.send(&peer, "ok");
        assert_eq!(peer.is_closed(), !goes_on, "{status}");
        let text = bench.start(|_| read_text(response));
        assert_eq!(text.take().unwrap(), "ok");
        if goes_on {
            // The connection is kept until the request is complete, too.
            let other = bench.get_text(URL);
            let second = bench.accept();
            bench.send(&second, OK_HELLO);
            assert_eq!(other.take().unwrap(), "hello");
            feed.put(&mut bench, None);
            assert!(bench.received(&peer).ends_with("0\r\nsum: 9\r\n\r\n"));
            assert!(!peer.is_closed());
        }
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_a_body_waits_for_100_continue() {
    let expecting = |bench: &mut Bench| {
        let call = bench.start(|client| async move {
            client.request(Method::PUT, URL).body("data").expect_continue(true).send().await
        });
        let peer = bench.accept();
        let head = bench.received(&peer);
        assert!(head.contains("expect: 100-continue\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        (call, peer)
    };
    let mut bench = Bench::new();
    let (call, peer) = expecting(&mut bench);
    bench.send(&peer, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(bench.received(&peer), "data");
    bench.send(&peer, OK_HELLO);
    assert_eq!(call.take().unwrap().status(), 200);
    assert!(!peer.is_closed());
    bench.assert_nothing_left();

    // A server that does not know of it.
    let mut bench = Bench::new();
    let (call, peer) = expecting(&mut bench);
    bench.advance(SECOND / 2);
    assert_eq!(bench.received(&peer), "");
    bench.advance(SECOND / 2);
    assert_eq!(bench.received(&peer), "data");
    bench.send(&peer, OK_HELLO);
    assert_eq!(call.take().unwrap().status(), 200);
    bench.assert_nothing_left();

    // A server that does not want it.
    let mut bench = Bench::new();
    let (call, peer) = expecting(&mut bench);
    bench.send(&peer, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(call.take().unwrap().status(), 417);
    bench.advance(2 * SECOND);
    assert_eq!((bench.received(&peer), peer.is_closed()), (String::new(), true));
    bench.assert_nothing_left();
}

#[test]
fn h11_a_request_without_a_body_expects_nothing() {
    let mut bench = Bench::new();
    let call = bench.start(|client| async move {
        client.request(Method::POST, URL).expect_continue(true).send().await
    });
    let peer = bench.accept();
    let head = "POST / HTTP/1.1\r\nhost: 192.0.2.1\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(bench.received(&peer), head);
    call.cancel(&mut bench);
    bench.assert_nothing_left();
}

#[test]
fn h11_the_body_of_a_response_is_the_body_of_a_request() {
    let mut bench = Bench::new();
    let call = bench.start(|client| async move {
        let response = client.get(URL).await.unwrap();
        let request = client.request(Method::POST, "http://192.0.2.2/").body(response.into_body());
        request.send().await.map(|response| response.status())
    });
    let first = bench.accept();
    bench.send(&first, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
    let second = bench.accept();
    assert!(bench.received(&second).ends_with("content-length: 5\r\n\r\nhe"));
    bench.send(&first, "llo");
    assert_eq!(bench.received(&second), "llo");
    bench.send(&second, OK_HELLO);
    assert_eq!(call.take().unwrap(), 200);
    bench.assert_nothing_left();
}

/// A stream of chunks that are always there.
struct Flood {
    chunks: usize,
    chunk: &'static [u8],
    polls: Rc<Cell<usize>>,
}

impl BodySource for Flood {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        self.polls.set(self.polls.get() + 1);
        if self.chunks == 0 {
            return Poll::Ready(None);
        }
        self.chunks -= 1;
        Poll::Ready(Some(Ok(Bytes::from_static(self.chunk).into())))
    }
}

#[test]
fn r04_a_source_that_never_waits_leaves_turns_to_others() {
    for (chunk, chunks) in [(&b""[..], 10_000), (b"x", 10_000), (&[b'y'; 60_000], 200)] {
        let (mut bench, polls) = (Bench::new(), Rc::new(Cell::new(0)));
        let flood = Flood { chunks, chunk, polls: polls.clone() };
        let call = bench.start(move |client| async move {
            client.request(Method::POST, URL).body(Body::from_source(flood)).send().await
        });
        let peer = bench.next_connect().unwrap().accept();
        let (mut most, mut bytes) = (0, 0);
        while polls.get() <= chunks {
            let before = polls.get();
            bench.event_loop.turn(Some(std::time::Duration::ZERO));
            most = most.max(polls.get() - before);
            bytes += peer.take_received().len();
        }
        assert!(most <= 128, "{most} chunks of {} bytes in a turn", chunk.len());
        assert!(
            most * chunk.len() <= 1_000_000,
            "{most} chunks of {} bytes in a turn",
            chunk.len()
        );
        bench.run();
        bytes += peer.take_received().len();
        assert!(bytes > chunks * chunk.len());
        bench.send(&peer, OK_HELLO);
        bench.drop_on_loop(call.take().unwrap());
        assert!(!peer.is_closed());
        bench.assert_nothing_left();
    }
}

#[test]
fn r04_bytes_behind_a_response_end_a_request_that_is_still_sent() {
    let (mut bench, feed) = (Bench::new(), Feed::default());
    let call = post_feed(&mut bench, &feed);
    let peer = bench.accept();
    feed.push(&mut bench, "part");
    bench.send(&peer, OK_HELLO);
    let response = call.take().unwrap();
    assert!(!peer.is_closed());
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert!(peer.is_closed(), "what comes behind the response is kept until the request is sent");
    assert!(feed.is_dropped.get());
    let text = bench.start(|_| read_text(response));
    assert_eq!(text.take().unwrap(), "hello");
    bench.assert_nothing_left();
}

#[test]
fn h11_a_source_that_panics_ends_its_request_alone() {
    for polls in [0, 1] {
        let mut bench = Bench::new();
        let waker = Rc::new(Cell::new(None::<Waker>));
        let (kept, mut left) = (waker.clone(), polls);
        let source = waterwheel_http::poll_source(move |cx| {
            assert!(left > 0, "the source panics");
            left -= 1;
            kept.set(Some(cx.waker().clone()));
            Poll::Pending
        });
        let call = post(&mut bench, Body::from_source(source));
        let peer = bench.accept();
        if let Some(waker) = waker.take() {
            bench.event_loop.on_loop(|_| waker.wake());
            bench.run();
        }
        let error = call.take().unwrap_err();
        assert!(
            matches!(error, ClientError::Closed { .. } | ClientError::RequestBody { .. }),
            "{error}"
        );
        assert!(peer.is_closed());
        bench.open_connection();
        bench.assert_nothing_left();
    }
}
