//! The future of a service, and the place in which it is polled.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use waterwheel_executor::engine::{run_as, run_user_code};
use waterwheel_executor::{Error, Origin, UserCode};

use crate::service::service::Response;

/// A call of the service, in an allocation that the next call uses again.
pub(super) struct ServiceCall<F> {
    future: Pin<Box<Option<F>>>,
    /// Names the service in reports.
    origin: Origin,
}

impl<F> ServiceCall<F> {
    pub(super) fn new(origin: Origin) -> Self {
        Self { future: Box::pin(None), origin }
    }

    /// Puts a future in, to be polled at once. The place is empty before.
    pub(super) fn put(&mut self, future: F) {
        self.future.set(Some(future));
    }

    /// Drops the future, if there is one. A panic of its destructor is reported.
    fn clear(&mut self) {
        if self.future.is_some() {
            // The panic has been reported; there is nothing else to do.
            let _ = run_as(UserCode::Destructor, self.origin, || self.future.set(None));
        }
    }
}

impl<F: Future<Output = Response>> ServiceCall<F> {
    /// Polls the future for the first time, in the call that has read the request.
    #[inline]
    pub(super) fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response, Error>> {
        let origin = self.origin;
        outcome(run_user_code(UserCode::Future, origin, || self.poll_future(cx)))
    }

    /// Polls the future after a wake: the watchdog names the service.
    pub(super) fn poll_woken(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response, Error>> {
        let origin = self.origin;
        outcome(run_as(UserCode::Future, origin, || self.poll_future(cx)))
    }

    #[inline]
    fn poll_future(&mut self, cx: &mut Context<'_>) -> Poll<Response> {
        let Some(future) = self.future.as_mut().as_pin_mut() else {
            unreachable!("a call is polled until it is ready, and has its future until then")
        };
        let polled = future.poll(cx);
        if polled.is_ready() {
            self.future.set(None); // Drops what the call has kept, under the same guard.
        }
        polled
    }
}

/// Turns a panic, which has been reported, into an error.
fn outcome(polled: Result<Poll<Response>, Error>) -> Poll<Result<Response, Error>> {
    match polled {
        Ok(poll) => poll.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    }
}

impl<F> Drop for ServiceCall<F> {
    fn drop(&mut self) {
        self.clear();
    }
}
