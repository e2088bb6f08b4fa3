//! The observers of a promise: listeners, the consumer, awaiting tasks and blocked threads, and how they are
//! notified.
//!
//! The slot's word says *whether* there are observers. The observers themselves are here behind a mutex, which
//! is locked only if there are any. The lease on the value is only ever claimed under this mutex, and a holder
//! that releases the lease then locks the mutex and looks for observers. An observer that fails to get the
//! lease registers here, so the holder always finds it.

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::PoisonError;
use std::task::Waker;
use std::time::Duration;

use super::any::{AnyPromise, PromiseRef};
use super::promise::report_panic;
use crate::clock::Clock;
use crate::engine::current::ExecutorId;
use crate::engine::registry::deliver;
use crate::engine::trampoline::Trampoline;
use crate::error::{Error, ErrorKind};
use crate::raw::origin::Origin;
use crate::raw::slot::{ValueLease, ValueSlot};
use crate::report::UserCode;
use crate::report::guard::guard;
use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, lock};

pub(crate) type Outcome<T> = Result<T, Error>;

/// The slot of a promise.
pub(crate) type PromiseSlot<T> = ValueSlot<Outcome<T>, PromiseContext<T>>;

/// The part of a promise beside its value. Kept small: most promises are completed and taken without any
/// observer.
pub(crate) struct PromiseContext<T> {
    /// The executor on which listeners run.
    pub(crate) executor: ExecutorId,
    pub(crate) created: &'static Location<'static>,
    observers: Mutex<Observers<T>>,
    /// How many threads are blocked on `changed`, counted under the mutex. Signalling without a waiter would
    /// still be a system call.
    blocked: AtomicU32,
    /// Signalled when blocked threads should look again.
    changed: Condvar,
}

/// The observers: usually none, or one task that awaits.
pub(crate) struct Observers<T> {
    /// The task that awaits the future.
    pub(crate) waker: Option<Waker>,
    others: Option<Box<OtherObservers<T>>>,
}

/// All other observers, allocated with the first of them.
pub(crate) struct OtherObservers<T> {
    pub(crate) listeners: Vec<PromiseListener<T>>,
    /// The closure that takes the value itself, after the listeners.
    pub(crate) consumer: Option<OutcomeConsumer<T>>,
    /// The tasks that await clones of a shared future, each under its clone's key.
    pub(crate) shared_wakers: Vec<(u64, Waker)>,
    pub(crate) next_key: u64,
    /// The closure to call when the promise is cancelled, on the cancelling thread.
    pub(crate) on_cancel: Option<OnCancel>,
    /// True while the listeners are being called.
    is_draining: bool,
    /// Set for a shared future: listeners get a clone, so that readers need not wait for them.
    pub(crate) cloner: Option<Cloner<T>>,
    /// Set for a termination future: the executor whose termination completes it. Blocking on the thread of that
    /// executor would deadlock.
    pub(crate) completed_by: Option<ExecutorId>,
}

pub(crate) type Cloner<T> = fn(&Outcome<T>) -> Outcome<T>;

thread_local! {
    /// Runs nested cancels one after the other: cancelling one future may cancel the next of a chain.
    static CANCELS: Trampoline = const { Trampoline::new() };
}

pub(crate) struct OnCancel {
    pub(crate) origin: Origin,
    pub(crate) call: Box<dyn FnOnce() + Send>,
}

pub(crate) struct PromiseListener<T> {
    pub(crate) origin: Origin,
    pub(crate) call: ListenerCall<T>,
}

pub(crate) type ListenerCall<T> = Box<dyn FnOnce(&Outcome<T>) + Send>;

pub(crate) struct OutcomeConsumer<T> {
    pub(crate) origin: Origin,
    pub(crate) call: Box<dyn FnOnce(Outcome<T>) + Send>,
}

/// The tasks to wake once no lock is held.
#[must_use]
struct Wakers(Option<Waker>, Vec<(u64, Waker)>);

impl<T> PromiseContext<T> {
    #[inline]
    pub(crate) fn new(executor: ExecutorId, created: &'static Location<'static>) -> Self {
        Self {
            executor,
            created,
            observers: Observers::empty(),
            blocked: AtomicU32::new(0),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn observers(&self) -> MutexGuard<'_, Observers<T>> {
        lock(&self.observers)
    }
}

impl<T: Send + 'static> PromiseSlot<T> {
    /// Notifies the observers of a promise that has completed.
    pub(crate) fn notify_observers(&self, this: &AnyPromise) {
        let mut observers = self.context.observers();
        self.signal(&observers);
        if observers.has_listener_or_consumer() {
            drop(observers);
            deliver(self.context.executor, this.clone());
        } else {
            let wakers = observers.take_wakers();
            drop(observers);
            wakers.wake();
        }
    }

    /// Notifies the observers of a promise that was cancelled.
    pub(crate) fn notify_cancelled(&self, this: &AnyPromise) {
        let on_cancel = self.context.observers().take_on_cancel();
        if let Some(OnCancel { origin, call }) = on_cancel {
            let call = Box::new(move || call_listener(origin, call));
            Trampoline::run(&CANCELS, call);
        }
        self.notify_observers(this);
    }

    /// Runs the listeners, then the consumer, then wakes the tasks. Called on the executor.
    pub(crate) fn run_listeners(&self) {
        let mut observers = self.context.observers();
        if std::mem::replace(&mut observers.others().is_draining, true) {
            return; // A call further up this stack runs all listeners, including later ones.
        }
        while observers.has_listeners() {
            let Some(lease) = self.lease() else {
                observers.others().is_draining = false;
                return; // A reader holds the lease, and calls this when it is done.
            };
            let others = observers.others();
            let (batch, cloner) = (std::mem::take(&mut others.listeners), others.cloner);
            drop(observers);
            self.call_listeners(batch, lease, cloner);
            observers = self.context.observers();
        }
        let others = observers.others();
        others.is_draining = false;
        let consumer = others.consumer.take();
        let taken = consumer.as_ref().and_then(|_| self.lease()?.take());
        let wakers = observers.take_wakers();
        self.signal(&observers);
        drop(observers);
        if let Some(OutcomeConsumer { origin, call }) = consumer {
            let outcome = taken.unwrap_or_else(|| Err(self.missing_value()));
            call_listener(origin, || call(outcome));
        }
        wakers.wake();
    }

    fn call_listeners(
        &self,
        batch: Vec<PromiseListener<T>>,
        mut lease: ValueLease<'_, Outcome<T>, PromiseContext<T>>,
        cloner: Option<Cloner<T>>,
    ) {
        let call_all = |outcome: &Outcome<T>| {
            for PromiseListener { origin, call } in batch {
                call_listener(origin, || call(outcome));
            }
        };
        if let Some(cloner) = cloner {
            let clone = || lease.with(|value| value.map(cloner));
            let copy = catch_unwind(AssertUnwindSafe(clone)).unwrap_or_else(|payload| {
                Some(Err(report_panic(UserCode::Listener, Origin::labelled("clone"), payload)))
            });
            drop(lease);
            self.wake_readers();
            return call_all(&copy.unwrap_or_else(|| Err(self.missing_value())));
        }
        lease.with(|value| match value {
            Some(outcome) => call_all(outcome),
            None => call_all(&Err(self.missing_value())),
        });
    }

    /// Notifies the readers that found the lease taken: it is free now.
    fn wake_readers(&self) {
        let mut observers = self.context.observers();
        self.signal(&observers);
        let wakers = observers.take_wakers();
        drop(observers);
        wakers.wake();
    }

    /// Takes the outcome, if the listeners have run and the lease is free.
    pub(crate) fn take_after_listeners(&self, observers: &Observers<T>) -> Option<Outcome<T>> {
        if observers.has_listeners() {
            return None;
        }
        let mut lease = self.lease()?;
        Some(lease.take().unwrap_or_else(|| Err(self.missing_value())))
    }

    /// Blocks until `ready` returns a value; `None` if the timeout is reached.
    pub(crate) fn block_until<R>(
        &self,
        timeout: Option<Duration>,
        mut ready: impl FnMut(&Observers<T>) -> Option<R>,
    ) -> Option<R> {
        let clock = Clock::Monotonic;
        let deadline = timeout.map(|timeout| clock.now().plus(timeout));
        let mut observers = self.context.observers();
        self.watch();
        self.context.blocked.fetch_add(1, Ordering::Relaxed);
        let found = loop {
            if let Some(found) = ready(&observers) {
                break Some(found);
            }
            let Some(deadline) = deadline else {
                let woken = self.context.changed.wait(observers);
                observers = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = clock.now();
            if now >= deadline {
                break None;
            }
            let woken = self.context.changed.wait_timeout(observers, deadline.since(now));
            observers = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        self.context.blocked.fetch_sub(1, Ordering::Relaxed);
        drop(observers); // Dropped after the decrement: the mutex guards the count.
        found
    }

    /// Returns the error for a promise that has completed and has no value: it was cancelled, or the value was
    /// taken.
    pub(crate) fn missing_value(&self) -> Error {
        if self.is_cancelled() {
            Error::cancelled()
        } else {
            ErrorKind::AlreadyTaken { created: self.context.created }.into()
        }
    }

    fn signal(&self, _under: &Observers<T>) {
        if self.context.blocked.load(Ordering::Relaxed) > 0 {
            self.context.changed.notify_all();
        }
    }
}

impl<T: Clone + Send + 'static> PromiseRef<T> {
    /// Clones the outcome, if the promise has completed and the lease is free.
    pub(crate) fn read<'a>(
        &'a self,
        observers: MutexGuard<'a, Observers<T>>,
    ) -> Result<Outcome<T>, MutexGuard<'a, Observers<T>>> {
        /// Notifies observers that found the lease taken meanwhile, also on unwind.
        struct NotifyOnDrop<'a, T: Send + 'static>(&'a PromiseRef<T>);
        impl<T: Send + 'static> Drop for NotifyOnDrop<'_, T> {
            fn drop(&mut self) {
                self.0.notify_observers(self.0.any());
            }
        }
        let Some(lease) = self.lease() else { return Err(observers) };
        drop(observers);
        let _notify = NotifyOnDrop(self);
        let mut lease = lease; // Dropped before `_notify`.
        Ok(lease.with(|value| value.cloned()).unwrap_or_else(|| Err(self.missing_value())))
    }
}

impl<T> Observers<T> {
    /// Returns an empty set as a constant, which is written in place. A value made at run time was made on the stack
    /// and moved; the move waited for the stores before it: a fifth of a promise's time.
    #[cfg(not(loom))]
    #[inline]
    fn empty() -> Mutex<Self> {
        const { Mutex::new(Self { waker: None, others: None }) }
    }

    /// Returns an empty set under loom, whose mutex has no constant constructor.
    #[cfg(loom)]
    fn empty() -> Mutex<Self> {
        Mutex::new(Self { waker: None, others: None })
    }

    pub(crate) fn others(&mut self) -> &mut OtherObservers<T> {
        self.others.get_or_insert_with(Box::default)
    }

    fn has_listeners(&self) -> bool {
        self.others.as_ref().is_some_and(|others| !others.listeners.is_empty())
    }

    /// True if there is a listener or a consumer to call.
    pub(crate) fn has_listener_or_consumer(&self) -> bool {
        self.has_listeners() || self.others.as_ref().is_some_and(|others| others.consumer.is_some())
    }

    pub(super) fn completed_by(&self) -> Option<ExecutorId> {
        self.others.as_ref()?.completed_by
    }

    fn take_on_cancel(&mut self) -> Option<OnCancel> {
        self.others.as_mut()?.on_cancel.take()
    }

    fn take_wakers(&mut self) -> Wakers {
        let shared = self.others.as_mut().map(|others| std::mem::take(&mut others.shared_wakers));
        Wakers(self.waker.take(), shared.unwrap_or_default())
    }
}

impl<T> Drop for Observers<T> {
    /// Few promises have observers to drop; that case is a cold function off the fast path.
    #[inline]
    fn drop(&mut self) {
        #[cold]
        fn drop_others<T>(others: Box<OtherObservers<T>>) {
            drop(others);
        }
        if let Some(others) = self.others.take() {
            drop_others(others);
        }
    }
}

impl<T> Default for OtherObservers<T> {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            consumer: None,
            shared_wakers: Vec::new(),
            next_key: 0,
            on_cancel: None,
            is_draining: false,
            cloner: None,
            completed_by: None,
        }
    }
}

impl Wakers {
    /// Wakes all tasks. A waker that panics does not keep the others from being woken.
    fn wake(self) {
        let shared = self.1.into_iter().map(|(_, waker)| waker);
        for waker in self.0.into_iter().chain(shared) {
            guard(UserCode::Waker, Origin::labelled("waker"), || waker.wake());
        }
    }
}

/// Calls user code. A panic is caught and reported.
pub(crate) fn call_listener(origin: Origin, call: impl FnOnce()) {
    guard(UserCode::Listener, origin, call);
}

impl<T> fmt::Debug for PromiseContext<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "created at {}", self.created)
    }
}
