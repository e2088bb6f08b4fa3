//! The completing half of a promise.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use super::any::ErasedPromise;
use super::future::PromiseFuture;
use super::observers::{OnCancel, Outcome, PromiseContext, call_listener};
use super::shared::SharedFuture;
use crate::engine::current::ExecutorId;
use crate::error::{Error, ErrorKind, take_panic_message};
use crate::raw::origin::Origin;
use crate::raw::slot::{SlotFiller, slot};
use crate::report::guard::report;
use crate::report::{Fault, UserCode};

/// Makes a promise and its future. Listeners run on the executor with this id.
#[track_caller]
pub(crate) fn promise<T: Send + 'static>(executor: ExecutorId) -> (Promise<T>, PromiseFuture<T>) {
    let created = Location::caller();
    pair(|| PromiseContext::new(executor, created))
}

/// Makes a promise for a piece of work, with the work's source line as the place of its creation.
#[track_caller]
pub(crate) fn promise_for_work<T: Send + 'static>(
    executor: ExecutorId,
    origin: Origin,
) -> (Promise<T>, PromiseFuture<T>) {
    let created = source_line(origin);
    pair(|| PromiseContext::new(executor, created))
}

/// Returns the source line of an origin; for a label, the source line of the caller.
#[track_caller]
pub(crate) fn source_line(origin: Origin) -> &'static Location<'static> {
    match origin.location() {
        Some(line) => line,
        None => Location::caller(),
    }
}

/// Makes a promise for the termination of an executor or a group. Listeners run on the global executor,
/// because the terminating loop no longer runs them. The promise cannot be cancelled.
#[track_caller]
pub(crate) fn promise_for_termination(ending: ExecutorId) -> (Promise<()>, SharedFuture<()>) {
    let created = Location::caller();
    let (mut promise, future) = pair(|| PromiseContext::new(ExecutorId::GLOBAL, created));
    promise.filler().context.observers().others().completed_by = Some(ending);
    promise.set_uncancellable();
    (promise, future.shared())
}

#[inline]
fn pair<T: Send + 'static>(
    context: impl FnOnce() -> PromiseContext<T>,
) -> (Promise<T>, PromiseFuture<T>) {
    let (filler, taker) = slot(context);
    (Promise { filler: Some(filler) }, PromiseFuture::new(taker))
}

/// The completing half of a promise: it completes the promise once.
///
/// The consuming methods (`set_…`) cannot be called twice; the `try_…` methods refuse a second call. Dropping
/// an uncompleted promise fails its future with an error that names where the promise was created.
///
/// ```
/// use waterwheel_executor::EventExecutor;
///
/// let executor = EventExecutor::builder().build()?;
/// let (promise, future) = executor.new_promise();
/// std::thread::spawn(move || promise.set_success(42));
/// assert_eq!(future.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Promise<T: Send + 'static> {
    /// `None` once a consuming method has completed the promise: the drop has nothing left to do.
    filler: Option<PromiseFiller<T>>,
}

impl<T: Send + 'static> Promise<T> {
    /// Completes the promise with a value. If the promise was completed or cancelled before, drops the value and
    /// returns false.
    #[inline]
    pub fn set_success(self, value: T) -> bool {
        self.complete(Ok(value))
    }

    /// Completes the promise with an error. Returns false if it had been completed or cancelled.
    pub fn set_failure(self, error: Error) -> bool {
        self.complete(Err(error))
    }

    /// Completes the promise with a result. Returns false if it had been completed or cancelled.
    #[inline]
    pub fn complete(mut self, outcome: Result<T, Error>) -> bool {
        self.filler.take().is_some_and(|mut filler| fill(&mut filler, outcome).is_ok())
    }

    /// Completes the promise with a value, or hands the value back if the promise was completed or cancelled before.
    ///
    /// # Errors
    /// The value, if the promise was completed or cancelled before.
    pub fn try_success(&mut self, value: T) -> Result<(), T> {
        self.try_complete(Ok(value)).map_err(|back| match back {
            Ok(value) => value,
            Err(_) => unreachable!("a value is handed back as a value"),
        })
    }

    /// Completes the promise with an error, or hands the error back if the promise was completed or cancelled before.
    ///
    /// # Errors
    /// The error, if the promise was completed or cancelled before.
    pub fn try_failure(&mut self, error: Error) -> Result<(), Error> {
        self.try_complete(Err(error)).map_err(|back| match back {
            Err(error) => error,
            Ok(_) => unreachable!("an error is handed back as an error"),
        })
    }

    /// Completes the promise with a result, or hands the result back if the promise was completed or cancelled before.
    ///
    /// # Errors
    /// The result, if the promise was completed or cancelled before.
    pub fn try_complete(&mut self, outcome: Result<T, Error>) -> Result<(), Result<T, Error>> {
        fill(self.filler_mut(), outcome)
    }

    /// Makes the promise uncancellable. Returns false if it was cancelled before: do not start the work then.
    pub fn set_uncancellable(&mut self) -> bool {
        self.filler_mut().set_uncancellable()
    }

    /// True if the promise was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.filler().is_cancelled()
    }

    /// True if the outcome has no observer: the future was dropped, and no listener or consumer
    /// was added before.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        let slot = self.filler().slot();
        slot.any().is_unique() && !slot.context.observers().has_listener_or_consumer()
    }

    /// Calls `f` when the future is cancelled, on the cancelling thread; calls `f` here if the future already was. A
    /// later call replaces the closure of an earlier call.
    #[track_caller]
    pub fn on_cancel(&mut self, f: impl FnOnce() + Send + 'static) {
        let origin = Origin::here();
        let slot = self.filler().slot();
        let mut observers = slot.context.observers();
        slot.watch();
        if slot.is_cancelled() {
            drop(observers);
            call_listener(origin, f);
        } else {
            let call = OnCancel { origin, call: Box::new(f) };
            let before = observers.others().on_cancel.replace(call);
            drop(observers);
            drop(before);
        }
    }

    /// Completes the promise with the value that `f` returns, or with an error if `f` panics. Returns false without
    /// calling `f` if the promise was cancelled.
    pub(crate) fn run(mut self, what: UserCode, origin: Origin, f: impl FnOnce() -> T) -> bool {
        if !self.set_uncancellable() {
            return false;
        }
        let outcome = catch_unwind(AssertUnwindSafe(f));
        self.complete(outcome.map_err(|payload| report_panic(what, origin, payload)))
    }

    /// Cancels the promise, for an owner that will not do the work.
    pub(crate) fn cancel(self) {
        let this = self.filler().slot().any();
        this.cancel(this);
    }

    /// Completes the promise with the outcome of another future; a cancelled outcome cancels the promise.
    pub(crate) fn complete_like(self, outcome: Outcome<T>) {
        match outcome {
            Err(error) if error.is_cancelled() => self.cancel(),
            outcome => {
                self.complete(outcome);
            }
        }
    }

    fn filler(&self) -> &PromiseFiller<T> {
        self.filler
            .as_ref()
            .unwrap_or_else(|| unreachable!("the filler is present until the promise is consumed"))
    }

    fn filler_mut(&mut self) -> &mut PromiseFiller<T> {
        self.filler
            .as_mut()
            .unwrap_or_else(|| unreachable!("the filler is present until the promise is consumed"))
    }
}

type PromiseFiller<T> = SlotFiller<Outcome<T>, PromiseContext<T>, dyn ErasedPromise>;

#[inline]
fn fill<T: Send + 'static>(
    filler: &mut PromiseFiller<T>,
    outcome: Outcome<T>,
) -> Result<(), Outcome<T>> {
    let has_observers = filler.fill(outcome)?;
    if has_observers {
        filler.notify_observers(filler.slot().any());
    }
    Ok(())
}

#[cold]
fn fail_dropped_promise<T: Send + 'static>(filler: &mut PromiseFiller<T>) {
    let created = filler.context.created;
    let _ = fill(filler, Err(ErrorKind::PromiseDropped { created }.into()));
}

/// Reports a panic and converts it to an error. The report is needed because a detached future never shows the
/// error.
pub(crate) fn report_panic(what: UserCode, origin: Origin, payload: Box<dyn Any + Send>) -> Error {
    let message = take_panic_message(payload);
    report(Fault::Panicked { what, origin, message: message.clone() });
    ErrorKind::Panicked { origin, message }.into()
}

impl<T: Send + 'static> Drop for Promise<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(filler) = self.filler.as_mut().filter(|filler| !filler.is_done()) {
            fail_dropped_promise(filler);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Promise({:?}, {:?})", **self.filler(), self.filler().context)
    }
}
