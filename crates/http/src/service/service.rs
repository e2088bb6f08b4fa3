//! `Service`: an asynchronous function from a request to a response.

use std::future::Future;

use super::into_response::IntoResponse;
use super::request::Request;
use crate::body::outgoing::Body;

/// A response with the body that is sent.
pub type Response<B = Body> = http::Response<B>;

/// Answers requests. Implemented by asynchronous functions and closures from a [`Request`] to anything that is a response
/// ([`IntoResponse`]): texts, statuses, results. An `async` closure may borrow what it holds.
///
/// The futures are polled and dropped on the connection's loop; they need not be `Send`, and may borrow the service. Up
/// to a limit, pipelined requests of a connection are answered at the same time; the answers keep their order.
///
/// ```
/// use waterwheel_http::{Body, IntoResponse, Request, Response, Service};
///
/// /// Answers with a greeting.
/// struct Greeter(String);
///
/// impl Service for Greeter {
///     async fn call(&self, request: Request) -> Response {
///         format!("{}, {}", self.0, request.uri().path()).into_response()
///     }
/// }
///
/// async fn greet(_: Request) -> &'static str {
///     "Hello"
/// }
///
/// /// Returns a service that counts its calls, without a lock: for `HttpServer::per_loop`.
/// fn counter() -> impl Service {
///     let count = std::cell::Cell::new(0);
///     async move |_: Request| {
///         count.set(count.get() + 1);
///         format!("call {}", count.get())
///     }
/// }
/// # fn check(_: impl Service) {}
/// # check(Greeter("Hi".into()));
/// # check(greet);
/// # check(counter());
/// ```
///
/// A service is extended by wrapping it: a function that takes a service and returns one.
///
/// ```
/// use http::header::{HeaderValue, X_FRAME_OPTIONS};
/// use waterwheel_http::{Request, Service};
///
/// fn without_frames(inner: impl Service) -> impl Service {
///     let inner = std::rc::Rc::new(inner);
///     move |request: Request| {
///         let inner = inner.clone();
///         async move {
///             let mut response = inner.call(request).await;
///             response.headers_mut().insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
///             response
///         }
///     }
/// }
/// # drop(without_frames(|_: Request| async { "" }));
/// ```
pub trait Service: 'static {
    /// Answers a request.
    ///
    /// The future is dropped when the connection ends, at any of its awaits. Work that must be finished in any case
    /// belongs in a task of its own.
    fn call(&self, request: Request) -> impl Future<Output = Response>;
}

/// `AsyncFn` is implemented by every `Fn` that returns a future, and by `async` closures that lend what they hold to their
/// futures, which `Fn` cannot.
impl<F, R> Service for F
where
    F: AsyncFn(Request) -> R + 'static,
    R: IntoResponse,
{
    async fn call(&self, request: Request) -> Response {
        self(request).await.into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::body::incoming::Incoming;

    #[test]
    fn h07_an_async_closure_may_borrow_what_it_holds() {
        let count = Cell::new(0);
        let service = async move |_: Request| {
            count.set(count.get() + 1);
            http::StatusCode::from_u16(200 + count.get()).map_err(|_| "no status")
        };
        for status in [201, 202] {
            let answer = pin!(Service::call(&service, Request::new(Incoming::empty())));
            match answer.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(response) => assert_eq!(response.status(), status),
                Poll::Pending => panic!("the service waits"),
            }
        }
    }
}
