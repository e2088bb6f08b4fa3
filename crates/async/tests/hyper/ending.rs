//! Drains, and channels that are closed while hyper works for them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use waterwheel_channel::{Channel, Drained, sleep, timeout};

use crate::http_bench::{
    HttpBench, MINUTE, SECOND, ask, connect_http2, describe, received, response, serve_http1,
    serve_http2,
};

#[test]
fn a04_a_drain_closes_idle_connections_and_waits_for_answers() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| {
        serve_http1(connection, |request| async move {
            if request.uri().path() == "/slow" {
                sleep(SECOND).await;
            }
            describe(request).await
        })
    });
    let (fresh, idle, busy) = (bench.connect_peer(), bench.connect_peer(), bench.connect_peer());
    idle.send("GET / HTTP/1.1\r\n\r\n");
    busy.send("GET /slow HTTP/1.1\r\n\r\n");
    bench.run();
    let drained = bench.drain();
    assert!(fresh.is_ended(), "without a request yet");
    assert!(idle.is_ended(), "between two requests");
    assert!(!busy.is_ended());
    assert!(!drained.is_done());
    bench.advance(SECOND);
    let answer = received(&busy);
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("GET /slow 0"), "{answer}");
    assert_eq!(drained.join().unwrap(), Drained::Complete);
}

#[test]
fn a04_a_drain_ends_with_its_deadline_if_a_request_does_not() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| {
        serve_http1(connection, |_| async {
            sleep(2 * MINUTE).await;
            response("late")
        })
    });
    let peer = bench.connect_peer();
    peer.send("GET / HTTP/1.1\r\n\r\n");
    bench.run();
    let drained = bench.drain();
    bench.advance(MINUTE);
    assert!(peer.is_ended());
    assert_eq!(received(&peer), "");
    assert_eq!(drained.join().unwrap(), Drained::DeadlineReached { channels: 1 });
}

#[test]
fn a04_a_drain_finishes_the_streams_of_http2() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| {
        serve_http2(connection, |request| async move {
            sleep(SECOND).await;
            describe(request).await
        })
    });
    let client = bench.client();
    let requests = bench.spawn(connect_http2(client)).take().unwrap();
    let (mut first, mut second) = (requests.clone(), requests.clone());
    let before = bench.spawn(async move { ask(&mut first, "/before").await.unwrap() });
    let drained = bench.drain();
    let after = bench.spawn(async move { ask(&mut second, "/after").await });
    assert!(after.take().unwrap().is_err(), "the server has said that it goes");
    assert!(!drained.is_done());
    bench.advance(SECOND);
    assert_eq!(before.take().unwrap(), "GET /before 0");
    assert_eq!(drained.join().unwrap(), Drained::Complete);
    drop(requests);
}

/// Counts what is alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves HTTP/2 with a service that takes a minute; tells the channels, and how many services are alive.
fn serve_slowly(bench: &mut HttpBench) -> (Arc<AtomicUsize>, Arc<Mutex<Vec<Channel>>>) {
    let (alive, channels) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (services, served) = (alive.clone(), channels.clone());
    bench.serve(move |connection| {
        served.lock().unwrap().push(connection.channel().clone());
        let services = services.clone();
        serve_http2(connection, move |_| {
            let service = Alive::new(&services);
            async move {
                sleep(MINUTE).await;
                drop(service);
                response("late")
            }
        })
    });
    (alive, channels)
}

#[test]
fn a04_the_streams_of_http2_end_with_their_channel() {
    let mut bench = HttpBench::new();
    let (alive, channels) = serve_slowly(&mut bench);
    let client = bench.client();
    let requests = bench.spawn(connect_http2(client)).take().unwrap();
    let answers = ["/one", "/two", "/three"].map(|path| {
        let mut requests = requests.clone();
        bench.spawn(async move { ask(&mut requests, path).await })
    });
    assert_eq!(alive.load(Ordering::Relaxed), 3);
    let served = channels.lock().unwrap().pop().unwrap();
    drop(served.close());
    bench.run();
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    assert!(answers.iter().all(|answer| answer.take().unwrap().is_err()));
    assert_eq!(bench.reports().take_texts(), [""; 0]);
}

#[test]
fn a04_a_request_that_the_client_gives_up_ends_its_stream_only() {
    let mut bench = HttpBench::new();
    let (alive, _) = serve_slowly(&mut bench);
    let client = bench.client();
    let mut requests = bench.spawn(connect_http2(client)).take().unwrap();
    let mut other = requests.clone();
    let kept = bench.spawn(async move { ask(&mut other, "/kept").await.unwrap() });
    let given_up = bench.spawn(async move {
        let _ = timeout(SECOND, ask(&mut requests, "/given-up")).await;
        requests
    });
    assert_eq!(alive.load(Ordering::Relaxed), 2);
    bench.advance(SECOND);
    assert!(given_up.borrow().is_some());
    assert_eq!(alive.load(Ordering::Relaxed), 1, "the other goes on");
    bench.advance(MINUTE);
    assert_eq!(kept.take().unwrap(), "late");
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn a04_a_peer_that_disappears_ends_its_services() {
    let mut bench = HttpBench::new();
    let (alive, _) = serve_slowly(&mut bench);
    let peer = bench.connect_peer();
    peer.send(Bytes::from_static(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"));
    peer.send(Bytes::from_static(b"\0\0\x06\x01\x05\0\0\0\x01\x82\x84\x86\x41\x01\x61"));
    bench.run();
    assert_eq!(alive.load(Ordering::Relaxed), 1);
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    peer.fail(waterwheel_executor::Error::new(reset));
    bench.run();
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    let reports = bench.reports().take_texts();
    assert_eq!(reports.len(), 1, "{reports:?}");
}

/// Polls a future at most so many times, then drops it. Returns true if it has completed.
async fn poll_at_most(polls: usize, future: impl Future) -> bool {
    let mut left = polls;
    let mut future = Some(Box::pin(future));
    poll_fn(|context| match (left.checked_sub(1), &mut future) {
        (Some(rest), Some(running)) => {
            left = rest;
            running.as_mut().poll(context).map(|_| true)
        }
        _ => {
            future = None;
            Poll::Ready(false)
        }
    })
    .await
}

#[test]
fn a06_serving_that_is_dropped_at_any_await_ends_its_connection_and_leaves_nothing() {
    let mut completed = 0;
    for polls in 0..12 {
        let mut bench = HttpBench::new();
        let (calls, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begun, ended) = (calls.clone(), done.clone());
        bench.serve(move |connection| {
            let (begun, ended) = (begun.clone(), ended.clone());
            let served = serve_http1(connection, move |request| {
                let call = Counted::new(&begun);
                async move {
                    let _call = call;
                    sleep(SECOND).await;
                    describe(request).await
                }
            });
            async move {
                let is_done = poll_at_most(polls, served).await;
                ended.fetch_add(usize::from(is_done), Ordering::SeqCst);
            }
        });
        let peer = bench.connect_peer();
        for part in ["POST / HTTP/1.1\r\ncontent-", "length: 2\r\n\r\na", "b"] {
            peer.send(part);
            bench.run();
        }
        bench.advance(SECOND);
        peer.finish();
        bench.run();
        assert!(peer.is_ended(), "after {polls} polls");
        assert_eq!(calls.load(Ordering::SeqCst), 0, "a call is left after {polls} polls");
        let answer = received(&peer);
        if done.load(Ordering::SeqCst) == 1 {
            assert!(answer.ends_with("POST / 2"), "{answer}");
            completed += 1;
        } else {
            assert!(answer.is_empty() || answer.ends_with("POST / 2"), "half an answer: {answer}");
        }
        assert_eq!(bench.reports().take_texts(), [""; 0]);
    }
    assert!((1..11).contains(&completed), "{completed} of 12 were served to the end");
}

/// Counts the calls that are under way.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
