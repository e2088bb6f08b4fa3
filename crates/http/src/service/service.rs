//! `Service`: an asynchronous function from a request to a response.

use std::future::Future;

use super::into_response::IntoResponse;
use super::request::Request;
use crate::body::outgoing::Body;

/// A response with the body that is sent.
pub type Response<B = Body> = http::Response<B>;

/// Answers requests. Implemented by asynchronous functions from a [`Request`] to anything that is a response
/// ([`IntoResponse`]): texts, statuses, results.
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
/// # fn check(_: impl Service) {}
/// # check(Greeter("Hi".into()));
/// # check(greet);
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

impl<F, Fut, R> Service for F
where
    F: Fn(Request) -> Fut + 'static,
    Fut: Future<Output = R>,
    R: IntoResponse,
{
    async fn call(&self, request: Request) -> Response {
        self(request).await.into_response()
    }
}
