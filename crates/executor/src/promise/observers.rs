//! Those who wait for a promise, and how they are told.
//!
//! The slot's word says *whether* somebody waits; who it is sits here behind a mutex, which is taken
//! only when there is somebody. The lease on the value is only ever claimed under this mutex, and
//! whoever gives it back takes the mutex afterwards and looks: so whoever fails to get the lease
//! leaves its wish in here, and knows that it will be seen.

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::PoisonError;
use std::task::Waker;
use std::time::Duration;

use super::any::{AnyPromise, PromiseRef};
use super::promise::caught;
use crate::clock::Clock;
use crate::engine::current::{self, ExecutorId};
use crate::engine::registry::deliver;
use crate::engine::trampoline::Trampoline;
use crate::error::{Error, ErrorKind, WouldDeadlock};
use crate::executor::immediate;
use crate::raw::origin::Origin;
use crate::raw::slot::{Lease, Slot};
use crate::report::UserCode;
use crate::report::guard::guard;
use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, lock};

pub(crate) type Outcome<T> = Result<T, Error>;

/// The slot of a promise.
pub(crate) type PromiseSlot<T> = Slot<Outcome<T>, Side<T>>;

/// What a promise keeps beside its value. Kept small: most promises are completed and taken without
/// anybody ever watching.
pub(crate) struct Side<T> {
    /// Where listeners run.
    pub(crate) executor: ExecutorId,
    pub(crate) created: &'static Location<'static>,
    observers: Mutex<Observers<T>>,
    /// Threads blocked on `changed`, counted under the mutex: signalling nobody is still a syscall.
    blocked: AtomicU32,
    /// Signalled when blocked threads should look again.
    changed: Condvar,
}

/// Who watches: usually nobody, or one task that awaits.
pub(crate) struct Observers<T> {
    /// The task that awaits the future.
    pub(crate) waker: Option<Waker>,
    others: Option<Box<Others<T>>>,
}

/// Everybody else, allocated when the first of them comes.
pub(crate) struct Others<T> {
    pub(crate) listeners: Vec<Listener<T>>,
    /// Takes the value itself, after the listeners.
    pub(crate) consumer: Option<Consumer<T>>,
    /// The tasks that await clones of a shared future, each under its clone's key.
    pub(crate) shared_wakers: Vec<(u64, Waker)>,
    pub(crate) next_key: u64,
    /// Called at once when it is cancelled, on the cancelling thread.
    pub(crate) on_cancel: Option<OnCancel>,
    /// The listeners are being called.
    draining: bool,
    /// Of a shared future: listeners get a clone, so that readers need not wait for them.
    pub(crate) cloner: Option<Cloner<T>>,
    /// Whose end completes it, of a termination future: blocking on that thread could never end.
    pub(crate) completed_by: Option<ExecutorId>,
}

pub(crate) type Cloner<T> = fn(&Outcome<T>) -> Outcome<T>;

thread_local! {
    /// Cancelling one future may cancel another, and so on along a chain.
    static CANCELS: Trampoline = const { Trampoline::new() };
}

pub(crate) struct OnCancel {
    pub(crate) origin: Origin,
    pub(crate) call: Box<dyn FnOnce() + Send>,
}

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
    #[inline]
    pub(crate) fn new(executor: ExecutorId, created: &'static Location<'static>) -> Self {
        Self {
            executor,
            created,
            observers: Observers::nobody(),
            blocked: AtomicU32::new(0),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn observers(&self) -> MutexGuard<'_, Observers<T>> {
        lock(&self.observers)
    }
}

impl<T: Send + 'static> PromiseSlot<T> {
    /// The promise has completed and somebody watches: tell them.
    pub(crate) fn settle(&self, me: &AnyPromise) {
        let mut observers = self.side.observers();
        self.signal(&observers);
        if observers.wants_executor() {
            drop(observers);
            deliver(self.side.executor, me.clone());
        } else {
            let wakers = observers.take_wakers();
            drop(observers);
            wakers.wake();
        }
    }

    /// The promise was cancelled and somebody watches: tell them.
    pub(crate) fn tell_cancelled(&self, me: &AnyPromise) {
        let on_cancel = self.side.observers().take_on_cancel();
        if let Some(OnCancel { origin, call }) = on_cancel {
            let call = Box::new(move || call_listener(origin, call));
            Trampoline::run(&CANCELS, call);
        }
        self.settle(me);
    }

    /// Runs the listeners, then the consumer, then wakes the tasks. Called on the executor.
    pub(crate) fn drain(&self) {
        let mut observers = self.side.observers();
        if std::mem::replace(&mut observers.others().draining, true) {
            return; // A listener further up this stack: it is followed by whatever was added.
        }
        while observers.has_listeners() {
            let Some(lease) = self.lease() else {
                observers.others().draining = false;
                return; // A reader is at it, and comes here when it is through.
            };
            let others = observers.others();
            let (batch, cloner) = (std::mem::take(&mut others.listeners), others.cloner);
            drop(observers);
            self.call_listeners(batch, lease, cloner);
            observers = self.side.observers();
        }
        let others = observers.others();
        others.draining = false;
        let consumer = others.consumer.take();
        let taken = consumer.as_ref().and_then(|_| self.lease()?.take());
        let wakers = observers.take_wakers();
        self.signal(&observers);
        drop(observers);
        if let Some(Consumer { origin, call }) = consumer {
            let outcome = taken.unwrap_or_else(|| Err(self.gone()));
            call_listener(origin, || call(outcome));
        }
        wakers.wake();
    }

    fn call_listeners(
        &self,
        batch: Vec<Listener<T>>,
        mut lease: Lease<'_, Outcome<T>, Side<T>>,
        cloner: Option<Cloner<T>>,
    ) {
        let call_all = |outcome: &Outcome<T>| {
            for Listener { origin, call } in batch {
                call_listener(origin, || call(outcome));
            }
        };
        if let Some(cloner) = cloner {
            let clone = || lease.with(|value| value.map(cloner));
            let copy = catch_unwind(AssertUnwindSafe(clone)).unwrap_or_else(|payload| {
                Some(Err(caught(UserCode::Listener, Origin::labelled("clone"), payload)))
            });
            drop(lease);
            self.wake_readers();
            return call_all(&copy.unwrap_or_else(|| Err(self.gone())));
        }
        lease.with(|value| match value {
            Some(outcome) => call_all(outcome),
            None => call_all(&Err(self.gone())),
        });
    }

    /// Tells those who found the lease taken that it is free.
    fn wake_readers(&self) {
        let mut observers = self.side.observers();
        self.signal(&observers);
        let wakers = observers.take_wakers();
        drop(observers);
        wakers.wake();
    }

    /// Takes the outcome, if the listeners are through and nobody is at it.
    pub(crate) fn take_listened(&self, observers: &Observers<T>) -> Option<Outcome<T>> {
        if observers.has_listeners() {
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
        self.side.blocked.fetch_add(1, Ordering::Relaxed);
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
            let woken = self.side.changed.wait_timeout(observers, deadline.since(now));
            observers = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        self.side.blocked.fetch_sub(1, Ordering::Relaxed);
        drop(observers); // Only now: it is counted under the mutex.
        found
    }

    /// The reason not to block on this promise here, if there is one.
    pub(crate) fn refuse_to_block(&self) -> Result<(), WouldDeadlock> {
        let executor = self.side.executor;
        if executor == ExecutorId::IMMEDIATE && immediate::is_running_here() {
            return Err(WouldDeadlock { executor: "immediate".to_owned() });
        }
        let completed_by = self.side.observers().completed_by();
        let mut here = current::get().map(Rc::new);
        while let Some(loop_) = here {
            let is_own = loop_.id == executor
                || loop_.is_global && executor == ExecutorId::GLOBAL
                || completed_by
                    .is_some_and(|end| end == loop_.id || Some(end) == loop_.local.group());
            if is_own || loop_.never_block {
                return Err(WouldDeadlock { executor: loop_.name.to_string() });
            }
            here = loop_.outer.clone();
        }
        Ok(())
    }

    /// Why there is no value although the promise has completed.
    pub(crate) fn gone(&self) -> Error {
        if self.is_cancelled() {
            Error::cancelled()
        } else {
            ErrorKind::AlreadyTaken { created: self.side.created }.into()
        }
    }

    fn signal(&self, _under: &Observers<T>) {
        if self.side.blocked.load(Ordering::Relaxed) > 0 {
            self.side.changed.notify_all();
        }
    }
}

impl<T: Clone + Send + 'static> PromiseRef<T> {
    /// Clones the outcome, if it is there and nobody is at it.
    pub(crate) fn read<'a>(
        &'a self,
        observers: MutexGuard<'a, Observers<T>>,
    ) -> Result<Outcome<T>, MutexGuard<'a, Observers<T>>> {
        /// Whoever came meanwhile found the lease taken. Told on unwind too.
        struct Settle<'a, T: Send + 'static>(&'a PromiseRef<T>);
        impl<T: Send + 'static> Drop for Settle<'_, T> {
            fn drop(&mut self) {
                self.0.settle(self.0.any());
            }
        }
        let Some(lease) = self.lease() else { return Err(observers) };
        drop(observers);
        let _settle = Settle(self);
        let mut lease = lease; // Dropped before `_settle`.
        Ok(lease.with(|value| value.cloned()).unwrap_or_else(|| Err(self.gone())))
    }
}

impl<T> Observers<T> {
    /// A constant, so that it is written where it stays. Made at run time it was made on the stack
    /// and moved, and the move waited for the stores before it: a fifth of a promise's time.
    #[cfg(not(loom))]
    #[inline]
    fn nobody() -> Mutex<Self> {
        const { Mutex::new(Self { waker: None, others: None }) }
    }

    /// Loom's mutex is not made by a constant function.
    #[cfg(loom)]
    fn nobody() -> Mutex<Self> {
        Mutex::new(Self { waker: None, others: None })
    }

    pub(crate) fn others(&mut self) -> &mut Others<T> {
        self.others.get_or_insert_with(Box::default)
    }

    fn has_listeners(&self) -> bool {
        self.others.as_ref().is_some_and(|others| !others.listeners.is_empty())
    }

    /// True if a listener or a consumer is to be called.
    pub(crate) fn wants_executor(&self) -> bool {
        self.has_listeners() || self.others.as_ref().is_some_and(|others| others.consumer.is_some())
    }

    fn completed_by(&self) -> Option<ExecutorId> {
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
    /// Most promises have nobody to drop here: the few that do are kept off their path.
    #[inline]
    fn drop(&mut self) {
        #[cold]
        fn drop_others<T>(others: Box<Others<T>>) {
            drop(others);
        }
        if let Some(others) = self.others.take() {
            drop_others(others);
        }
    }
}

impl<T> Default for Others<T> {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            consumer: None,
            shared_wakers: Vec::new(),
            next_key: 0,
            on_cancel: None,
            draining: false,
            cloner: None,
            completed_by: None,
        }
    }
}

impl Wakers {
    /// One that panics keeps no other from being woken.
    fn wake(self) {
        let shared = self.1.into_iter().map(|(_, waker)| waker);
        for waker in self.0.into_iter().chain(shared) {
            guard(UserCode::Waker, Origin::labelled("waker"), || waker.wake());
        }
    }
}

/// Calls user code; a panic is reported and goes no further.
pub(crate) fn call_listener(origin: Origin, call: impl FnOnce()) {
    guard(UserCode::Listener, origin, call);
}

impl<T> fmt::Debug for Side<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "created at {}", self.created)
    }
}
