//! Services of the tower ecosystem, such as routers of axum, as services here: behind the feature `tower`.
//!
//! ```text
//!   Incoming ──BodyPump──► SendBody ──► tower service ──► http_body::Body ──HttpBodySource──► Body
//! ```

mod http_body;
pub(crate) mod send_body;

use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use waterwheel_executor::Error;

use self::send_body::{BodyPump, SendBody};
use super::into_response::IntoResponse;
use crate::body::outgoing::Body;
use crate::service::request::Request;
use crate::service::service::{Response, Service};

/// A tower service as a [`Service`]. The service is cloned for each request, and called once it is ready.
///
/// The request's body is a [`SendBody`], as routers of axum need bodies that are `Send`. While the call runs, and then
/// while the body of its response is sent, the connection's loop hands over a chunk whenever one is asked for; a body that
/// is read from another thread therefore ends with [`BodyError::Aborted`](crate::BodyError::Aborted) once the response is
/// complete. Nothing is read ahead, so a body that is not read stops the socket, and `100 Continue` is sent when it is
/// asked for.
///
/// An error of the service is answered with 500, and reported.
///
/// The cost of a request beside that of the service: a clone of the service; an allocation for the body of the response,
/// and a second one unless that body is one chunk of known length; if the request has a body, an allocation, and for each
/// chunk some short locks and a wake.
///
/// The futures of the service run on the connection's loop: one that needs tokio's reactor has to be given its context.
///
/// ```
/// use std::convert::Infallible;
/// use std::future::{Ready, ready};
/// use std::task::{Context, Poll};
/// use waterwheel_http::{SendBody, TowerService};
///
/// #[derive(Clone)]
/// struct Hello;
///
/// impl tower_service::Service<http::Request<SendBody>> for Hello {
///     type Response = http::Response<SendBody>;
///     type Error = Infallible;
///     type Future = Ready<Result<Self::Response, Infallible>>;
///
///     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
///         Poll::Ready(Ok(()))
///     }
///
///     /// Answers with the body of the request.
///     fn call(&mut self, request: http::Request<SendBody>) -> Self::Future {
///         ready(Ok(http::Response::new(request.into_body())))
///     }
/// }
///
/// let service = TowerService::new(Hello);
/// # fn check(_: impl waterwheel_http::Service) {}
/// # check(service);
/// ```
#[derive(Clone)]
pub struct TowerService<S> {
    service: S,
}

impl<S> TowerService<S> {
    /// Makes a service of a tower service.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self { service }
    }
}

impl<S, B> Service for TowerService<S>
where
    S: tower_service::Service<http::Request<SendBody>, Response = http::Response<B>>,
    S: Clone + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    B: ::http_body::Body + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    async fn call(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let (body, mut pump) = SendBody::new(body);
        let mut service = self.service.clone();
        let call = async move {
            poll_fn(|cx| service.poll_ready(cx)).await?;
            service.call(http::Request::from_parts(head, body)).await
        };
        match with_pump(call, &mut pump).await {
            Ok(response) => {
                let (head, body) = response.into_parts();
                Response::from_parts(head, Body::from_parts(body, pump))
            }
            Err(error) => Error::new(error).into_response(),
        }
    }
}

/// Waits for a future, and hands over the body that it may read.
async fn with_pump<F: Future>(future: F, pump: &mut Option<BodyPump>) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        loop {
            if let Some(pump) = pump {
                pump.clear_waker();
            }
            if let ready @ Poll::Ready(_) = future.as_mut().poll(cx) {
                return ready;
            }
            if !pump.as_mut().is_some_and(|pump| pump.poll_handover(cx)) {
                return Poll::Pending;
            }
        }
    })
    .await
}

impl<S> fmt::Debug for TowerService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerService").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
