//! One timer: shared by the loop that fires it and the future that cancels it.
//!
//! The closure waits behind a mutex with its promise. Whoever takes it out owns it: the loop to run
//! it, or a cancel to drop it. Cancelling goes through the future like every other cancel: the
//! slot's word decides who wins, then [`CancelTimer`] is called on the cancelling thread, drops the
//! closure there, and lets the loop clear the place in its heap when it next has time.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::heap::TimerKey;
use super::periodic::Repeat;
use crate::clock::Nanos;
use crate::current::ExecutorId;
use crate::guard::guard_drop;
use crate::promise::{Promise, PromiseFuture, caught, promise_of_timer};
use crate::raw::origin::Origin;
use crate::registry;
use crate::report::UserCode;
use crate::sync::{Mutex, lock};

/// A timer as its loop sees it.
pub(crate) trait Timer: Send + Sync {
    fn origin(&self) -> Origin;

    /// Runs it, on the loop.
    fn fire(&self, now: &dyn Fn() -> Nanos) -> Fired;

    /// It will never fire: its closure goes, its future is cancelled.
    fn abandon(&self);

    /// Where it stands in the heap of its loop. Used on the loop only.
    fn place(&self) -> &Place;
}

/// What came of firing a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// It was cancelled before.
    Cancelled,
    /// It ran, and is through.
    Ran,
    /// It ran, and wants to be fired again then.
    Again(Nanos),
}

/// A timer as its future sees it.
pub(crate) trait CancelTimer: Send + Sync {
    /// The future was cancelled.
    fn cancelled(self: Arc<Self>);
}

/// A timer that runs once, and its future.
#[track_caller]
pub(crate) fn one_shot<T, F>(
    executor: ExecutorId,
    origin: Origin,
    closure: F,
) -> (Arc<dyn Timer>, PromiseFuture<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    entry(executor, origin, |promise| OneShot { promise, closure })
}

/// A timer that runs until it is cancelled or panics, and its future. First due at `due`.
#[track_caller]
pub(crate) fn periodic<F: FnMut() + Send + 'static>(
    executor: ExecutorId,
    origin: Origin,
    (due, repeat): (Nanos, Repeat),
    closure: F,
) -> (Arc<dyn Timer>, PromiseFuture<()>) {
    entry(executor, origin, |promise| Periodic { promise, closure, due, repeat })
}

/// What a timer does when it is due.
trait TimerWork: Send + Sized + 'static {
    /// With `Again`, itself comes back.
    fn run(self, origin: Origin, now: &dyn Fn() -> Nanos) -> (Fired, Option<Self>);

    fn is_cancelled(&self) -> bool;

    fn abandon(self);
}

struct OneShot<T: Send + 'static, F> {
    promise: Promise<T>,
    closure: F,
}

impl<T, F> TimerWork for OneShot<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    fn run(self, origin: Origin, _: &dyn Fn() -> Nanos) -> (Fired, Option<Self>) {
        let ran = self.promise.run(UserCode::Timer, origin, self.closure);
        (if ran { Fired::Ran } else { Fired::Cancelled }, None)
    }

    fn is_cancelled(&self) -> bool {
        self.promise.is_cancelled()
    }

    fn abandon(self) {
        let Self { promise, closure } = self;
        promise.cancel();
        drop(closure);
    }
}

struct Periodic<F> {
    promise: Promise<()>,
    closure: F,
    due: Nanos,
    repeat: Repeat,
}

impl<F: FnMut() + Send + 'static> TimerWork for Periodic<F> {
    fn run(mut self, origin: Origin, now: &dyn Fn() -> Nanos) -> (Fired, Option<Self>) {
        if self.is_cancelled() {
            return (Fired::Cancelled, None);
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(&mut self.closure)) {
            let Self { promise, closure, .. } = self;
            promise.set_failure(caught(UserCode::Timer, origin, payload));
            drop(closure); // Last: its destructors may panic too.
            return (Fired::Ran, None);
        }
        self.due = self.repeat.next(self.due, now());
        (Fired::Again(self.due), Some(self))
    }

    fn is_cancelled(&self) -> bool {
        self.promise.is_cancelled()
    }

    fn abandon(self) {
        let Self { promise, closure, .. } = self;
        promise.cancel();
        drop(closure);
    }
}

/// The loop holds it strongly, the promise weakly: a timer that goes takes its closure along.
struct Entry<W> {
    executor: ExecutorId,
    origin: Origin,
    place: Place,
    work: Mutex<Option<W>>,
}

#[track_caller]
fn entry<W: TimerWork, T: Send + 'static>(
    executor: ExecutorId,
    origin: Origin,
    work: impl FnOnce(Promise<T>) -> W,
) -> (Arc<dyn Timer>, PromiseFuture<T>) {
    let mut handle = None;
    let timer = Arc::new_cyclic(|timer: &Weak<Entry<W>>| {
        let (promise, future) = promise_of_timer(executor, origin, timer.clone());
        handle = Some(future);
        Entry { executor, origin, place: Place::new(), work: Mutex::new(Some(work(promise))) }
    });
    match handle {
        Some(future) => (timer, future),
        None => unreachable!("made together with the timer"),
    }
}

impl<W: TimerWork> Timer for Entry<W> {
    fn origin(&self) -> Origin {
        self.origin
    }

    fn fire(&self, now: &dyn Fn() -> Nanos) -> Fired {
        let Some(work) = lock(&self.work).take() else { return Fired::Cancelled };
        let (fired, again) = work.run(self.origin, now);
        let Some(again) = again else { return fired };
        let mut work = lock(&self.work);
        // Cancelled while it ran: that cancel found nothing to drop. Later ones will.
        if again.is_cancelled() {
            drop(work);
            drop(again);
            return Fired::Ran;
        }
        *work = Some(again);
        fired
    }

    fn abandon(&self) {
        let work = lock(&self.work).take();
        if let Some(work) = work {
            work.abandon();
        }
    }

    fn place(&self) -> &Place {
        &self.place
    }
}

impl<W: TimerWork> CancelTimer for Entry<W> {
    fn cancelled(self: Arc<Self>) {
        let work = lock(&self.work).take();
        guard_drop(|| drop(work));
        registry::clear_timer(self.executor, self);
    }
}

/// Where a timer stands in the heap of its loop. An atomic only because the entry is shared: it is
/// written and read on the loop.
#[derive(Debug)]
pub(crate) struct Place(AtomicU64);

impl Place {
    const NOWHERE: u64 = u64::MAX;

    fn new() -> Self {
        Self(AtomicU64::new(Self::NOWHERE))
    }

    pub(crate) fn set(&self, key: TimerKey) {
        self.0.store(key.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Option<TimerKey> {
        let bits = self.0.load(Ordering::Relaxed);
        self.0.store(Self::NOWHERE, Ordering::Relaxed);
        (bits != Self::NOWHERE).then(|| TimerKey::from_bits(bits))
    }
}

impl fmt::Debug for dyn Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timer({})", self.origin())
    }
}
