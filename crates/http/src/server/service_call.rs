//! The future of a service, and the place in which it is polled.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use waterwheel_executor::engine::{run_as, run_user_code};
use waterwheel_executor::{Error, Origin, UserCode};

use crate::service::service::Response;

/// The memory of calls that have ended, for the next calls of a loop. Connections that are idle hold none.
pub(super) struct SpareCalls<F> {
    calls: RefCell<Vec<ServiceCall<F>>>,
}

/// The most bytes of futures that are kept, and the most futures.
const MAX_SPARE_BYTES: usize = 256 * 1024;
const MAX_SPARE_CALLS: usize = 64;

impl<F: 'static> SpareCalls<F> {
    /// Returns the calls of a loop, whose type only the caller can infer.
    pub(super) fn of(cell: &OnceCell<Rc<dyn Any>>) -> Rc<Self> {
        let new = || Rc::new(Self { calls: RefCell::default() });
        let shared = cell.get_or_init(|| new()).clone();
        shared.downcast().unwrap_or_else(|_| new())
    }

    /// Takes a call to put a future in.
    #[inline]
    pub(super) fn take(&self, origin: Origin) -> ServiceCall<F> {
        let kept = self.calls.borrow_mut().pop();
        kept.unwrap_or_else(|| ServiceCall::new(origin))
    }

    /// Keeps the memory of a call, after its future was dropped.
    #[inline]
    pub(super) fn keep(&self, mut call: ServiceCall<F>) {
        call.clear();
        let most = MAX_SPARE_CALLS.min(MAX_SPARE_BYTES / size_of::<Option<F>>().max(1));
        let mut calls = self.calls.borrow_mut();
        if calls.len() < most {
            calls.push(call);
        }
    }
}

/// A call of the service, in an allocation that a later call uses again.
pub(super) struct ServiceCall<F> {
    future: Pin<Box<Option<F>>>,
    /// Names the service in reports.
    origin: Origin,
}

impl<F> ServiceCall<F> {
    fn new(origin: Origin) -> Self {
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
