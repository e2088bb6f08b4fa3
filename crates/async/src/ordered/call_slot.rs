//! The place of one call: its future, and the waker that marks it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use waterwheel_executor::engine::{run_as, run_user_code};
use waterwheel_executor::{Error, Origin, UserCode};

/// The future of a call, in an allocation that the next call uses again. Dropping the place drops the future; a panic
/// of its destructor is reported.
pub(super) struct CallSlot<F> {
    future: Pin<Box<Option<F>>>,
    /// `None` until the connection has a driver that could be woken.
    waker: Option<CallWaker>,
    /// Names the future in reports.
    origin: Origin,
}

/// Why a call has no answer.
pub(super) enum CallFailure {
    Error(Error),
    /// Already reported, with the name of the handler.
    Panic(Error),
}

impl<F> CallSlot<F> {
    pub(super) fn new(origin: Origin) -> Self {
        Self { future: Box::pin(None), waker: None, origin }
    }

    /// Puts a future in, to be polled at once. The place is empty before.
    pub(super) fn put(&mut self, future: F, driver: Option<&Waker>) {
        self.future.set(Some(future));
        match (&self.waker, driver) {
            // A waker of the last call in this place may still be used. The mark causes a poll in vain at most.
            (Some(waker), _) => waker.mark.is_woken.store(false, Ordering::Relaxed),
            (None, Some(driver)) => self.waker = Some(CallWaker::new(driver)),
            (None, None) => {}
        }
    }

    /// True if the future has to be polled: it was woken, or has not had a waker so far.
    pub(super) fn take_mark(&mut self, driver: &Waker) -> bool {
        match &self.waker {
            // What the waking thread wrote before is seen by the poll.
            Some(waker) => waker.mark.is_woken.swap(false, Ordering::AcqRel),
            None => {
                self.waker = Some(CallWaker::new(driver));
                true
            }
        }
    }

    /// Drops the future.
    pub(super) fn clear(&mut self) {
        if self.future.is_some() {
            // A panic has been reported; there is nothing else to do.
            let _ = run_as(UserCode::Destructor, self.origin, || self.future.set(None));
        }
    }
}

impl<T, F: Future<Output = Result<T, Error>>> CallSlot<F> {
    /// Polls the future inside of a call of the handler, which the watchdog names.
    pub(super) fn poll(&mut self) -> Poll<Result<T, CallFailure>> {
        let origin = self.origin;
        outcome(run_user_code(UserCode::Future, origin, || self.poll_future()))
    }

    /// Polls the future from the driver: the watchdog names the future.
    pub(super) fn poll_woken(&mut self) -> Poll<Result<T, CallFailure>> {
        let origin = self.origin;
        outcome(run_as(UserCode::Future, origin, || self.poll_future()))
    }

    fn poll_future(&mut self) -> Poll<Result<T, Error>> {
        let waker = self.waker.as_ref().map_or(Waker::noop(), |waker| &waker.waker);
        match self.future.as_mut().as_pin_mut() {
            Some(future) => future.poll(&mut Context::from_waker(waker)),
            None => {
                unreachable!("a call is polled until it is ready, and has its future until then")
            }
        }
    }
}

fn outcome<T>(polled: Result<Poll<Result<T, Error>>, Error>) -> Poll<Result<T, CallFailure>> {
    match polled {
        Ok(poll) => poll.map(|result| result.map_err(CallFailure::Error)),
        Err(panicked) => Poll::Ready(Err(CallFailure::Panic(panicked))),
    }
}

impl<F> Drop for CallSlot<F> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The waker of a place, and the mark that it sets.
struct CallWaker {
    mark: Arc<CallMark>,
    waker: Waker,
}

impl CallWaker {
    fn new(driver: &Waker) -> Self {
        let mark = Arc::new(CallMark { is_woken: AtomicBool::new(false), driver: driver.clone() });
        Self { waker: Waker::from(mark.clone()), mark }
    }
}

/// Marks a call and wakes the driver. Any thread sets the mark; the loop takes it just before it polls. A thread that
/// finds the mark set does nothing: the one that set it wakes the driver, and the driver has not polled the call since.
struct CallMark {
    is_woken: AtomicBool,
    driver: Waker,
}

impl Wake for CallMark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.driver.wake_by_ref();
        }
    }
}
