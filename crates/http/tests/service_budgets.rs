//! Allocation budgets of services: what a router adds to the services behind it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Uri;
use waterwheel_http::{Incoming, Request, RoutedRequest, Router, Service};

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

const ROUNDS: usize = 100;

fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the service waits"),
    }
}

fn router() -> Router {
    Router::builder()
        .get("/a/b", async |_: Request| "literal")
        .get("/users/{id}", async |request: Request| match request.path_param("id").as_deref() {
            Some("7") => "seven",
            _ => "another",
        })
        .build()
        .unwrap()
}

/// Returns the allocations of `ROUNDS` requests after the first one.
fn allocations(router: &Router, path: &'static [u8]) -> u64 {
    // Shared bytes, like those that a connection reads.
    let path = Bytes::from(path.to_vec());
    let _shared = path.clone();
    let requests: Vec<_> = (0..=ROUNDS)
        .map(|_| {
            let uri = Uri::from_maybe_shared(path.clone()).unwrap();
            http::Request::builder().uri(uri).body(Incoming::empty()).unwrap()
        })
        .collect();
    let mut requests = requests.into_iter();
    let mut answers = Vec::with_capacity(ROUNDS + 1);
    answers.push(ready(router.call(requests.next().unwrap())));
    let (count, ()) = allocations_in(|| {
        answers.extend(requests.map(|request| ready(router.call(request))));
    });
    assert!(answers.iter().all(|answer| answer.status() == 200));
    count
}

#[test]
fn h07_a_route_without_parameters_allocates_nothing() {
    assert_eq!(allocations(&router(), b"/a/b"), 0);
}

/// The map of extensions, its table and the parameters in it.
#[test]
fn h07_a_route_with_parameters_allocates_three_times() {
    assert_eq!(allocations(&router(), b"/users/7"), 3 * ROUNDS as u64);
}

/// A second call at the same time needs memory of its own, once.
#[test]
fn h07_concurrent_calls_reuse_the_memory_of_their_futures() {
    let router = Router::builder()
        .get("/", |_: Request| async {
            let mut waits = true;
            std::future::poll_fn(|_| match std::mem::take(&mut waits) {
                true => Poll::Pending,
                false => Poll::Ready("done"),
            })
            .await
        })
        .build()
        .unwrap();
    let round = || {
        let [a, b] = [(), ()].map(|()| router.call(Request::new(Incoming::empty())));
        let (mut a, mut b) = (pin!(a), pin!(b));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(a.as_mut().poll(&mut cx).is_pending() && b.as_mut().poll(&mut cx).is_pending());
        assert!(b.as_mut().poll(&mut cx).is_ready() && a.as_mut().poll(&mut cx).is_ready());
    };
    let (first, ()) = allocations_in(round);
    assert!(first > 0, "futures are counted");
    assert_eq!(allocations_in(|| (0..ROUNDS).for_each(|_| round())).0, 0);
}
