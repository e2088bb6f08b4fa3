//! Allocation budgets: what a router, and the adaptor for tower services, add to a service (H07).

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Uri;
use http_body::{Frame, SizeHint};
use waterwheel_http::{Incoming, Request, Router, SendBody, Service, TowerService};

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
    answers.push(ready(router.call(requests.next().unwrap().into())));
    let (count, ()) = allocations_in(|| {
        answers.extend(requests.map(|request| ready(router.call(request.into()))));
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

/// A body of one chunk, of known length or not.
struct OneChunk(Option<Bytes>, bool);

impl http_body::Body for OneChunk {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Some(bytes) if self.1 => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// A tower service that allocates nothing; true if the lengths of its bodies are known.
#[derive(Clone)]
struct Hello(bool);

impl tower_service::Service<http::Request<SendBody>> for Hello {
    type Response = http::Response<OneChunk>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<SendBody>) -> Self::Future {
        let body = OneChunk(Some(Bytes::from_static(b"hello")), self.0);
        std::future::ready(Ok(http::Response::new(body)))
    }
}

#[test]
fn h07_a_tower_service_costs_what_its_documentation_says() {
    for (is_known, request, expected) in [(true, "", 1), (false, "", 2), (true, "body", 2)] {
        let service = TowerService::new(Hello(is_known));
        drop(Request::new(Incoming::empty())); // Makes room for the memory of requests.
        let request = Request::new(Incoming::from(Bytes::from_static(request.as_bytes())));
        let (count, response) = allocations_in(|| ready(service.call(request)));
        assert_eq!(response.status(), 200);
        assert_eq!(count, expected, "length known: {is_known}");
    }
}
