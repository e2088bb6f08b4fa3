//! Those who wait for a promise, and how they are told.
//!
//! The slot's word says *whether* somebody waits; who it is sits here behind a mutex, which is taken
//! only when there is somebody. The lease on the value is only ever claimed and given back under
//! this mutex: whoever fails to get it leaves its wish in here and knows that the holder will look
//! before it is through.

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::clock::Clock;
use crate::current::{self, ExecutorId};
use crate::error::{Error, ErrorKind, WouldDeadlock, panic_message};
use crate::raw::origin::Origin;
use crate::raw::slot::Slot;
use crate::registry::{Notify, deliver};
use crate::report::{Fault, UserCode};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

pub(crate) type Outcome<T> = Result<T, Error>;

/// The slot of a promise.
pub(crate) type PromiseSlot<T> = Slot<Outcome<T>, Side<T>>;

/// What a promise keeps beside its value.
pub(crate) struct Side<T> {
    pub(crate) executor: ExecutorId,
    pub(crate) created: &'static Location<'static>,
    pub(crate) observers: Mutex<Observers<T>>,
    /// Signalled when `waiting` threads should look again.
    changed: Condvar,
}

pub(crate) struct Observers<T> {
    pub(crate) listeners: Vec<Listener<T>>,
    /// Takes the value itself, after the listeners.
    pub(crate) consumer: Option<Consumer<T>>,
    /// The task that awaits the future.
    pub(crate) waker: Option<Waker>,
    /// The tasks that await clones of a shared future, each under its clone's key.
    pub(crate) shared_wakers: Vec<(u64, Waker)>,
    pub(crate) next_key: u64,
    /// Threads blocked on `changed`. Counted because signalling nobody is still a syscall.
    waiting: u32,
    /// Called at once, on the cancelling thread.
    pub(crate) on_cancel: Option<UserCall>,
}

pub(crate) type UserCall = Box<dyn FnOnce() + Send>;

pub(crate) struct Listener<T> {
    pub(crate) origin: Origin,
    pub(crate) call: ListenerCall<T>,
}

pub(crate) type ListenerCall<T> = Box<dyn FnOnce(&Outcome<T>) + Send>;

pub(crate) struct Consumer<T> {
    pub(crate) origin: Origin,
    pub(crate) call: Box<dyn FnOnce(Outcome<T>) + Send>,
}

/// The tasks to wake once no lock is held.
#[must_use]
struct Wakers(Option<Waker>, Vec<(u64, Waker)>);

impl<T> Side<T> {
    pub(crate) fn new(executor: ExecutorId, created: &'static Location<'static>) -> Self {
        let observers = Observers {
            listeners: Vec::new(),
            consumer: None,
            waker: None,
            shared_wakers: Vec::new(),
            next_key: 0,
            waiting: 0,
            on_cancel: None,
        };
        Self {
            executor,
            created,
            observers: Mutex::new(observers),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn observers(&self) -> MutexGuard<'_, Observers<T>> {
        lock(&self.observers)
    }
}

impl<T: Send + 'static> PromiseSlot<T> {
    /// The promise has completed and somebody watches: tell them.
    pub(crate) fn settle(self: &Arc<Self>) {
        let mut observers = self.side.observers();
        self.signal(&observers);
        if observers.wants_executor() {
            drop(observers);
            deliver(self.side.executor, self.clone());
        } else {
            let wakers = observers.take_wakers();
            drop(observers);
            wakers.wake();
        }
    }

    /// Cancels, unless completed or uncancellable.
    pub(crate) fn cancel_and_tell(self: &Arc<Self>) -> bool {
        let Some(watched) = self.cancel() else {
            return false;
        };
        let on_cancel = self.side.observers().on_cancel.take();
        if let Some(call) = on_cancel {
            call_listener(Origin::labelled("on_cancel"), call);
        }
        if watched {
            self.settle();
        }
        true
    }

    /// Runs the listeners, then the consumer, then wakes the tasks. Called on the executor.
    pub(crate) fn drain(&self) {
        let mut observers = self.side.observers();
        // Refused: a listener further up this stack, or a reader elsewhere, is at it and will look
        // again before it lets go.
        let Some(mut lease) = self.lease() else {
            return;
        };
        while !observers.listeners.is_empty() {
            let batch = std::mem::take(&mut observers.listeners);
            drop(observers);
            lease.with(|value| {
                let gone;
                let outcome = if let Some(outcome) = value {
                    outcome
                } else {
                    gone = Err(self.gone());
                    &gone
                };
                for Listener { origin, call } in batch {
                    call_listener(origin, || call(outcome));
                }
            });
            observers = self.side.observers();
        }
        let consumer = observers.consumer.take();
        let taken = if consumer.is_some() {
            lease.take()
        } else {
            None
        };
        drop(lease);
        let wakers = observers.take_wakers();
        self.signal(&observers);
        drop(observers);
        if let Some(Consumer { origin, call }) = consumer {
            let outcome = taken.unwrap_or_else(|| Err(self.gone()));
            call_listener(origin, || call(outcome));
        }
        wakers.wake();
    }

    /// Clones the outcome, if it is there and nobody is at it.
    pub(crate) fn read<'a>(
        self: &'a Arc<Self>,
        observers: MutexGuard<'a, Observers<T>>,
    ) -> Result<Outcome<T>, MutexGuard<'a, Observers<T>>>
    where
        T: Clone,
    {
        let Some(mut lease) = self.lease() else {
            return Err(observers);
        };
        drop(observers);
        let outcome = lease
            .with(|value| value.cloned())
            .unwrap_or_else(|| Err(self.gone()));
        let observers = self.side.observers();
        drop(lease);
        drop(observers);
        self.settle(); // Whoever came meanwhile found the lease taken.
        Ok(outcome)
    }

    /// Takes the outcome, if the listeners are through and nobody is at it.
    pub(crate) fn take_listened(&self, observers: &Observers<T>) -> Option<Outcome<T>> {
        if !observers.listeners.is_empty() {
            return None;
        }
        let mut lease = self.lease()?;
        Some(lease.take().unwrap_or_else(|| Err(self.gone())))
    }

    /// Blocks until `ready` gives something; `None` if the time is up.
    pub(crate) fn block_until<R>(
        &self,
        timeout: Option<Duration>,
        mut ready: impl FnMut(&Observers<T>) -> Option<R>,
    ) -> Option<R> {
        let clock = Clock::Monotonic;
        let deadline = timeout.map(|timeout| clock.now().plus(timeout));
        let mut observers = self.side.observers();
        self.watch();
        observers.waiting += 1;
        let found = loop {
            if let Some(found) = ready(&observers) {
                break Some(found);
            }
            let Some(deadline) = deadline else {
                let woken = self.side.changed.wait(observers);
                observers = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = clock.now();
            if now >= deadline {
                break None;
            }
            let woken = self
                .side
                .changed
                .wait_timeout(observers, deadline.since(now));
            observers = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        observers.waiting -= 1;
        found
    }

    /// The reason not to block on this promise here, if there is one.
    pub(crate) fn refuse_to_block(&self) -> Result<(), WouldDeadlock> {
        match current::get() {
            Some(here) if here.never_block || here.id == self.side.executor => Err(WouldDeadlock {
                executor: here.name.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Why there is no value although the promise has completed.
    pub(crate) fn gone(&self) -> Error {
        if self.is_cancelled() {
            Error::cancelled()
        } else {
            ErrorKind::AlreadyTaken {
                created: self.side.created,
            }
            .into()
        }
    }

    fn signal(&self, observers: &Observers<T>) {
        if observers.waiting > 0 {
            self.side.changed.notify_all();
        }
    }
}

impl<T: Send + 'static> Notify for PromiseSlot<T> {
    fn notify(self: Arc<Self>) {
        self.drain();
    }
}

impl<T> Observers<T> {
    fn wants_executor(&self) -> bool {
        !self.listeners.is_empty() || self.consumer.is_some()
    }

    fn take_wakers(&mut self) -> Wakers {
        Wakers(self.waker.take(), std::mem::take(&mut self.shared_wakers))
    }
}

impl Wakers {
    fn wake(self) {
        if let Some(waker) = self.0 {
            waker.wake();
        }
        for (_, waker) in self.1 {
            waker.wake();
        }
    }
}

/// Calls user code; a panic is reported and goes no further.
pub(crate) fn call_listener(origin: Origin, call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        let message = panic_message(&*payload);
        current::report(Fault::Panicked {
            what: UserCode::Listener,
            origin,
            message,
        });
    }
}

impl<T> fmt::Debug for Side<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "created at {}", self.created)
    }
}
