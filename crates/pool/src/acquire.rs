//! The future of an acquire, and the pool's side of it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use waterwheel_channel::{AddressSpec, EventLoop};
use waterwheel_executor::{Canceller, Error, Nanos, Promise, PromiseFuture};

use crate::error::PoolError;
use crate::lease::Lease;

/// A lease that arrives, perhaps at once. Created by [`ChannelPool::acquire`](crate::ChannelPool::acquire).
///
/// Await it, [`join`](Self::join) it on a thread that may block, or give it a callback with
/// [`on_complete`](Self::on_complete). Dropping it cancels the acquire: it leaves the queue, and a connection that was
/// already assigned to it goes back to the pool.
#[must_use = "dropping an acquire cancels it"]
pub struct Acquire(AcquireState);

enum AcquireState {
    /// Served or refused without waiting.
    Done(Result<Lease, Error>),
    Waiting(PromiseFuture<Lease>),
    Taken,
}

impl Acquire {
    pub(crate) fn served(lease: Lease) -> Self {
        Self(AcquireState::Done(Ok(lease)))
    }

    pub(crate) fn refused(error: PoolError) -> Self {
        Self(AcquireState::Done(Err(Error::new(error))))
    }

    pub(crate) fn waiting(future: PromiseFuture<Lease>) -> Self {
        Self(AcquireState::Waiting(future))
    }

    /// True if the outcome is known: awaiting or joining it takes no time.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.0 {
            AcquireState::Done(_) | AcquireState::Taken => true,
            AcquireState::Waiting(future) => future.is_done(),
        }
    }

    /// Blocks the thread until the lease is there.
    ///
    /// # Errors
    /// [`PoolError`], wrapped; or [`WouldDeadlock`](waterwheel_executor::WouldDeadlock) on a thread that must not block,
    /// unless the outcome is known: then the acquire is cancelled.
    pub fn join(mut self) -> Result<Lease, Error> {
        match std::mem::replace(&mut self.0, AcquireState::Taken) {
            AcquireState::Done(outcome) => outcome,
            AcquireState::Waiting(future) => {
                let unserved = future.canceller();
                let outcome = future.join();
                unserved.cancel(); // Does nothing unless the wait was refused.
                outcome
            }
            AcquireState::Taken => unreachable!("an acquire is consumed once"),
        }
    }

    /// Calls `consumer` with the outcome, on a loop of the pool, which is the calling loop if that is one of them. An
    /// outcome that is known already is delivered at once if the caller is on a loop, and an acquire that was refused
    /// at once on any thread: the pool may have no loop left. The acquire cannot be cancelled any more.
    pub fn on_complete(mut self, consumer: impl FnOnce(Result<Lease, Error>) + Send + 'static) {
        match std::mem::replace(&mut self.0, AcquireState::Taken) {
            AcquireState::Waiting(future) => future.on_complete(consumer),
            AcquireState::Done(outcome) => match (&outcome, EventLoop::current()) {
                (Ok(lease), None) => {
                    let (promise, future) = lease.event_loop().new_promise();
                    promise.complete(outcome);
                    future.on_complete(consumer);
                }
                _ => consumer(outcome),
            },
            AcquireState::Taken => unreachable!("an acquire is consumed once"),
        }
    }
}

impl Future for Acquire {
    type Output = Result<Lease, Error>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let AcquireState::Waiting(future) = &mut self.0 {
            let polled = Pin::new(future).poll(cx);
            if polled.is_ready() {
                self.0 = AcquireState::Taken;
            }
            return polled;
        }
        match std::mem::replace(&mut self.0, AcquireState::Taken) {
            AcquireState::Done(outcome) => Poll::Ready(outcome),
            _ => panic!("an acquire was polled again after it was ready"),
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let AcquireState::Waiting(future) = &self.0 {
            // If it has just been served, the lease is dropped with the future.
            future.cancel();
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_done() { "Acquire(done)" } else { "Acquire(waiting)" })
    }
}

/// An acquire in the queue of the pool.
pub(crate) struct Waiter {
    pub(crate) promise: Promise<Lease>,
    pub(crate) address: Arc<AddressSpec>,
    /// The place in the order of acquires.
    pub(crate) ticket: u64,
    /// The index of the loop that the acquire was made on.
    pub(crate) event_loop: Option<usize>,
    /// Stops the timer of the deadline.
    pub(crate) deadline: Option<Canceller>,
    pub(crate) began: Nanos,
    pub(crate) until: Option<Nanos>,
}

impl Waiter {
    pub(crate) fn complete(self, outcome: Result<Lease, PoolError>) {
        self.stop_timer();
        // A lease that comes too late is dropped here, and given back.
        self.promise.complete(outcome.map_err(Error::new));
    }

    pub(crate) fn stop_timer(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.cancel();
        }
    }
}
