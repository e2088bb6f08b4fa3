//! A future that can be cloned and awaited by several consumers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::any::PromiseRef;
use super::observers::PromiseListener;
use crate::error::{Error, ErrorKind, WaitError};
use crate::raw::origin::Origin;

/// A future with several consumers: each gets a clone of the outcome.
///
/// ```
/// use waterwheel_executor::EventExecutor;
///
/// let executor = EventExecutor::builder().build()?;
/// let answer = executor.submit(|| 42)?.shared();
/// let other = answer.clone();
/// let thread = std::thread::spawn(move || other.join());
/// assert_eq!(answer.join()?, 42);
/// assert_eq!(thread.join().unwrap()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a future detaches it"]
pub struct SharedFuture<T: Clone + Send + 'static> {
    slot: PromiseRef<T>,
    /// The key of this clone's waker; `None` before the first pending poll.
    key: Option<u64>,
}

impl<T: Clone + Send + 'static> SharedFuture<T> {
    pub(super) fn new(slot: PromiseRef<T>) -> Self {
        Self { slot, key: None }
    }

    /// True once the promise has completed: with a value, an error or a cancel.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.slot.is_done()
    }

    /// True if the promise was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.slot.is_cancelled()
    }

    /// Cancels the promise for all consumers, unless it has completed or can no longer be cancelled. Returns true
    /// if this call cancelled it.
    pub fn cancel(&self) -> bool {
        let this = self.slot.any();
        this.cancel(this)
    }

    /// Calls `listener` with the outcome, on the executor, after the listeners added before.
    #[track_caller]
    pub fn add_listener(&self, listener: impl FnOnce(&Result<T, Error>) + Send + 'static) {
        let listener = PromiseListener { origin: Origin::here(), call: Box::new(listener) };
        self.slot.add_listener(listener);
    }

    /// Returns a clone of the outcome, if the promise has completed and no other consumer holds the outcome at this
    /// moment.
    #[must_use]
    pub fn try_get(&self) -> Option<Result<T, Error>> {
        self.slot.read(self.slot.context.observers()).ok()
    }

    /// Blocks until the promise has completed.
    ///
    /// # Errors
    /// [`WaitError::WouldDeadlock`] on the thread of the promise's executor and on the thread of any I/O loop, unless
    /// the promise has completed.
    pub fn wait(&self) -> Result<(), WaitError> {
        self.slot.wait(None)
    }

    /// Blocks until the promise has completed or the timeout is reached.
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait), or [`WaitError::TimedOut`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.slot.wait(Some(timeout))
    }

    /// Blocks until the promise has completed, and returns a clone of the outcome.
    ///
    /// # Errors
    /// The promise's own error, or [`ErrorKind::WouldDeadlock`] where blocking is refused.
    pub fn join(&self) -> Result<T, Error> {
        loop {
            if let Some(outcome) = self.try_get() {
                return outcome;
            }
            if !self.slot.is_done()
                || crate::engine::current::is_listener_thread(self.slot.context.executor)
            {
                self.slot
                    .check_may_block()
                    .map_err(|refused| Error::from(ErrorKind::from(refused)))?;
            }
            // The lease is free if the promise has completed and no listener or reader holds it. Another reader
            // may claim the lease first.
            let free = |_: &_| self.slot.lease().map(drop);
            let _ = self.slot.block_until(None, free);
        }
    }
}

impl<T: Clone + Send + 'static> Future for SharedFuture<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut spare = Some(context.waker().clone());
        let mut observers = this.slot.context.observers();
        this.slot.watch();
        let observers = match this.slot.read(observers) {
            Ok(outcome) => return Poll::Ready(outcome),
            Err(held) => {
                observers = held;
                let others = observers.others();
                let key = *this.key.get_or_insert_with(|| {
                    others.next_key += 1;
                    others.next_key
                });
                let known = others.shared_wakers.iter_mut().find(|(k, _)| *k == key);
                match known {
                    // The old waker is dropped after the lock is released: its drop is user code.
                    Some((_, known)) => {
                        spare = spare.map(|waker| std::mem::replace(known, waker));
                    }
                    None => others.shared_wakers.extend(spare.take().map(|waker| (key, waker))),
                }
                observers
            }
        };
        drop(observers);
        drop(spare);
        Poll::Pending
    }
}

impl<T: Clone + Send + 'static> Clone for SharedFuture<T> {
    fn clone(&self) -> Self {
        Self::new(self.slot.clone())
    }
}

impl<T: Clone + Send + 'static> Drop for SharedFuture<T> {
    /// Removes this clone's waker: a long-lived future that is polled by many short-lived tasks must not
    /// collect wakers.
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let mut observers = self.slot.context.observers();
            let wakers = &mut observers.others().shared_wakers;
            let at = wakers.iter().position(|(k, _)| *k == key);
            let waker = at.map(|at| wakers.swap_remove(at));
            drop(observers);
            drop(waker);
        }
    }
}

impl<T: Clone + Send + 'static> fmt::Debug for SharedFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedFuture({:?}, {:?})", *self.slot, self.slot.context)
    }
}
