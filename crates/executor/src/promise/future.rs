//! The waiting half of a promise.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::any::{ErasedPromise, PromiseRef, WeakPromise};
use super::observers::{Outcome, OutcomeConsumer, PromiseContext, PromiseListener, PromiseSlot};
use super::shared::SharedFuture;
use crate::engine::current::ExecutorId;
use crate::engine::registry::deliver;
use crate::error::{Error, ErrorKind, WaitError};
use crate::raw::origin::Origin;
use crate::raw::slot::{SlotTaker, TakeOutcome};

/// The waiting half of a promise. A future has one owner, who gets the value; [`shared`](Self::shared) makes it
/// a future with many owners.
///
/// Await it on any runtime, [`join`](Self::join) it on a thread that may block, add listeners, or give it a
/// consumer. Dropping the future detaches it: the work continues.
///
/// ```
/// use waterwheel_executor::EventExecutor;
///
/// let executor = EventExecutor::builder().build()?;
/// let mut future = executor.submit(|| 6 * 7)?;
/// future.add_listener(|outcome| println!("on the executor: {outcome:?}"));
/// assert_eq!(future.map(|n| n + 1).join()?, 43);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a future detaches it"]
pub struct PromiseFuture<T: Send + 'static> {
    taker: SlotTaker<Outcome<T>, PromiseContext<T>, dyn ErasedPromise>,
    /// Makes the future `Sync` only if `T` is, although no method returns a `&T`.
    value: PhantomData<T>,
}

impl<T: Send + 'static> PromiseFuture<T> {
    pub(crate) fn new(taker: SlotTaker<Outcome<T>, PromiseContext<T>, dyn ErasedPromise>) -> Self {
        Self { taker, value: PhantomData }
    }

    /// Returns the id of the executor on which the listeners run.
    #[must_use]
    pub fn executor(&self) -> ExecutorId {
        self.taker.context.executor
    }

    /// True once the promise has completed: with a value, an error or a cancel.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.taker.is_done()
    }

    /// True if the promise was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.taker.is_cancelled()
    }

    /// Cancels the promise, unless it has completed or can no longer be cancelled. Returns true if this call
    /// cancelled it. A submitted task that has not started will not run.
    pub fn cancel(&self) -> bool {
        let this = self.taker.slot().any();
        this.cancel(this)
    }

    /// Returns a handle that cancels, for code that does not own the future.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { promise: self.taker.slot().any().downgrade() }
    }

    /// Calls `listener` with the outcome, on the executor, after the listeners added before.
    #[track_caller]
    pub fn add_listener(&mut self, listener: impl FnOnce(&Result<T, Error>) + Send + 'static) {
        self.taker.listen();
        let listener = PromiseListener { origin: Origin::here(), call: Box::new(listener) };
        self.taker.slot().add_listener(listener);
    }

    /// Calls `consumer` with the outcome itself, on the executor, after all listeners.
    #[track_caller]
    pub fn on_complete(mut self, consumer: impl FnOnce(Result<T, Error>) + Send + 'static) {
        self.taker.listen();
        let consumer = OutcomeConsumer { origin: Origin::here(), call: Box::new(consumer) };
        let slot = self.taker.slot();
        slot.context.observers().others().consumer = Some(consumer);
        if slot.watch() {
            deliver(slot.context.executor, slot.any().clone());
        }
    }

    /// Takes the outcome, if the promise has completed.
    pub fn try_take(&mut self) -> Option<Result<T, Error>> {
        match self.taker.take() {
            TakeOutcome::NotYet => None,
            TakeOutcome::Listened => {
                let slot = self.taker.slot();
                slot.take_after_listeners(&slot.context.observers())
            }
            TakeOutcome::Cancelled => Some(Err(Error::cancelled())),
            TakeOutcome::Value(value) => {
                Some(value.unwrap_or_else(|| Err(self.taker.slot().missing_value())))
            }
        }
    }

    /// Blocks until the promise has completed.
    ///
    /// # Errors
    /// [`WaitError::WouldDeadlock`] on the thread of the promise's executor and on the thread of any I/O loop, unless
    /// the promise has completed.
    pub fn wait(&self) -> Result<(), WaitError> {
        self.taker.slot().wait(None)
    }

    /// Blocks until the promise has completed or the timeout is reached.
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait), or [`WaitError::TimedOut`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.taker.slot().wait(Some(timeout))
    }

    /// Blocks until the promise has completed, and takes the outcome.
    ///
    /// # Errors
    /// The promise's own error, or [`ErrorKind::WouldDeadlock`] where blocking is refused.
    pub fn join(mut self) -> Result<T, Error> {
        if let Some(outcome) = self.try_take() {
            return outcome;
        }
        let slot = self.taker.slot();
        if slot.is_done() {
            // Listeners have not run yet. On the thread of the listeners, they run now.
            if crate::engine::current::is_listener_thread(slot.context.executor) {
                slot.run_listeners();
                if let Some(outcome) = self.try_take() {
                    return outcome;
                }
                check_may_join(self.taker.slot())?;
            }
        } else {
            check_may_join(slot)?;
        }
        let taker = &mut self.taker;
        let slot = taker.slot().clone();
        slot.block_until(None, |observers| match taker.take() {
            TakeOutcome::NotYet => None,
            TakeOutcome::Listened => slot.take_after_listeners(observers),
            TakeOutcome::Cancelled => Some(Err(Error::cancelled())),
            TakeOutcome::Value(value) => Some(value.unwrap_or_else(|| Err(slot.missing_value()))),
        })
        .unwrap_or_else(|| Err(slot.missing_value()))
    }

    /// Returns a future that can be cloned: every consumer gets a clone of the outcome.
    pub fn shared(mut self) -> SharedFuture<T>
    where
        T: Clone,
    {
        self.taker.listen();
        let slot = self.taker.slot();
        slot.context.observers().others().cloner = Some(Clone::clone);
        SharedFuture::new(slot.clone())
    }
}

/// The value is in the slot, never in the future: moving the future moves no value.
impl<T: Send + 'static> Unpin for PromiseFuture<T> {}

impl<T: Send + 'static> Future for PromiseFuture<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.try_take() {
            return Poll::Ready(outcome);
        }
        let waker = context.waker().clone();
        let slot = self.taker.slot();
        let mut observers = slot.context.observers();
        let before = observers.waker.replace(waker);
        let done = slot.watch();
        drop(observers);
        drop(before);
        // Checks again: a thread that completed the promise meanwhile may have missed the waker.
        match done.then(|| self.try_take()).flatten() {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

impl<T: Send + 'static> PromiseRef<T> {
    pub(super) fn add_listener(&self, listener: PromiseListener<T>) {
        self.context.observers().others().listeners.push(listener);
        if self.watch() {
            deliver(self.context.executor, self.any().clone());
        }
    }
}

impl<T: Send + 'static> PromiseSlot<T> {
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Result<(), WaitError> {
        if self.is_done() {
            return Ok(());
        }
        self.check_may_block()?;
        self.block_until(timeout, |_| self.is_done().then_some(())).ok_or(WaitError::TimedOut)
    }
}

fn check_may_join<T: Send + 'static>(slot: &PromiseSlot<T>) -> Result<(), Error> {
    slot.check_may_block().map_err(|refused| ErrorKind::from(refused).into())
}

/// Cancels a future from any thread, without keeping the future alive.
#[derive(Clone)]
pub struct Canceller {
    promise: WeakPromise,
}

impl Canceller {
    /// Cancels the future, unless it has completed, can no longer be cancelled, or was dropped. Returns true if
    /// this call cancelled it.
    pub fn cancel(&self) -> bool {
        self.promise.upgrade().is_some_and(|promise| promise.cancel(&promise))
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}

impl<T: Send + 'static> fmt::Debug for PromiseFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PromiseFuture({:?}, {:?})", *self.taker, self.taker.context)
    }
}
