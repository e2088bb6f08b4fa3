//! One timer: a promise with a closure in its tail, shared by the loop that fires it and the future that
//! cancels it.
//!
//! Promise and closure are one allocation, under one word (`raw::work`), which says who owns the closure: the
//! loop to run it, or a cancel to drop it. A timer is cancelled through its future, like every promise. The
//! cancel that wins drops the closure on the cancelling thread, and leaves it to the loop to take the timer out
//! of its wheel later.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use super::periodic::Repeat;
use super::wheel::TimerKey;
use crate::clock::Nanos;
use crate::engine::current::ExecutorId;
use crate::engine::registry;
use crate::error::ErrorKind;
use crate::promise::observers::{Outcome, PromiseContext, PromiseSlot};
use crate::promise::{AnyPromise, ErasedPromise, PromiseFuture, report_panic, source_line};
use crate::raw::block::{Allocator, AsDyn};
use crate::raw::origin::Origin;
use crate::raw::work::{UnfilledSlot, WorkBlock, slot_with_work};
use crate::report::UserCode;
use crate::report::guard::guard_drop;

/// The loop's handle of a timer. Dropping it before the timer fired drops the closure and fails the future.
pub(crate) struct TimerRef(AnyPromise);

impl TimerRef {
    pub(crate) fn origin(&self) -> Origin {
        self.timer().origin()
    }

    /// Runs the timer, on the loop.
    pub(crate) fn fire(&self, now: &dyn Fn() -> Nanos) -> Fired {
        self.timer().fire(&self.0, now)
    }

    /// Cancels a timer that will never fire: its future completes as cancelled, and its closure is dropped.
    pub(crate) fn cancel_unfired(&self) {
        self.timer().cancel_unfired(&self.0);
    }

    /// Returns the timer's position in the wheel of its loop. Used on the loop only.
    pub(crate) fn wheel_position(&self) -> &WheelPosition {
        self.timer().wheel_position()
    }

    fn timer(&self) -> &dyn ErasedTimer {
        timer_of(&self.0)
    }
}

impl Drop for TimerRef {
    fn drop(&mut self) {
        self.timer().fail_if_pending(&self.0);
    }
}

impl fmt::Debug for TimerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timer({})", self.origin())
    }
}

/// Returns a timer's position in the wheel of its loop.
pub(crate) fn wheel_position_of(timer: &AnyPromise) -> &WheelPosition {
    timer_of(timer).wheel_position()
}

fn timer_of(timer: &AnyPromise) -> &dyn ErasedTimer {
    timer.timer().unwrap_or_else(|| unreachable!("the promise was made as a timer"))
}

/// The outcome of firing a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// The timer had been cancelled.
    Cancelled,
    /// The timer ran, and is done.
    Ran,
    /// The timer ran, and fires again at this time.
    Again(Nanos),
}

/// Makes a timer that runs once, and its future.
#[track_caller]
pub(crate) fn one_shot<T, F>(
    (executor, allocator): (ExecutorId, Allocator),
    origin: Origin,
    closure: F,
) -> (TimerRef, PromiseFuture<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    timer((executor, allocator), origin, OneShot(closure))
}

/// Makes a timer that runs until it is cancelled or panics, and its future. It is first due at `due`.
#[track_caller]
pub(crate) fn periodic<F: FnMut() + Send + 'static>(
    (executor, allocator): (ExecutorId, Allocator),
    origin: Origin,
    (due, repeat): (Nanos, Repeat),
    closure: F,
) -> (TimerRef, PromiseFuture<()>) {
    timer((executor, allocator), origin, Periodic { closure, due, repeat })
}

#[track_caller]
fn timer<T: Send + 'static, W: TimerWork<T>>(
    (executor, allocator): (ExecutorId, Allocator),
    origin: Origin,
    work: W,
) -> (TimerRef, PromiseFuture<T>) {
    let created = source_line(origin);
    let meta = || TimerMeta { origin, position: WheelPosition::new() };
    let (worker, taker) =
        slot_with_work(allocator, || PromiseContext::new(executor, created), work, meta);
    (TimerRef(worker), PromiseFuture::new(taker))
}

/// A timer of any value type and any closure type.
pub(crate) trait ErasedTimer: Send + Sync {
    fn origin(&self) -> Origin;

    fn fire(&self, this: &AnyPromise, now: &dyn Fn() -> Nanos) -> Fired;

    fn cancel_unfired(&self, this: &AnyPromise);

    /// Fails the timer's future if it is neither completed nor cancelled: its loop drops the timer.
    fn fail_if_pending(&self, this: &AnyPromise);

    fn wheel_position(&self) -> &WheelPosition;
}

/// The closure of a timer, and how it is fired.
trait TimerWork<T: Send + 'static>: Send + Sized + 'static {
    fn fire(timer: &TimerBlock<T, Self>, this: &AnyPromise, now: &dyn Fn() -> Nanos) -> Fired;
}

/// The part of a timer beside its closure.
pub(crate) struct TimerMeta {
    origin: Origin,
    position: WheelPosition,
}

type TimerBlock<T, W> = WorkBlock<Outcome<T>, PromiseContext<T>, W, TimerMeta, dyn ErasedPromise>;

impl<T: Send + 'static, W: TimerWork<T>> ErasedTimer for TimerBlock<T, W> {
    fn origin(&self) -> Origin {
        self.tail().extra.origin
    }

    fn fire(&self, this: &AnyPromise, now: &dyn Fn() -> Nanos) -> Fired {
        W::fire(self, this, now)
    }

    fn cancel_unfired(&self, this: &AnyPromise) {
        let Some(claim) = self.claim() else { return };
        if self.head().cancel().is_some_and(|has_observers| has_observers) {
            self.head().notify_cancelled(this);
        }
        drop(claim.give_back()); // Last, because its destructors may panic.
    }

    fn fail_if_pending(&self, this: &AnyPromise) {
        if self.head().is_done() {
            return;
        }
        let Some(claim) = self.claim_uncancellable() else { return };
        let (work, unfilled) = claim.take();
        let created = self.head().context.created;
        complete(self.head(), this, unfilled, Err(ErrorKind::PromiseDropped { created }.into()));
        drop(work);
    }

    fn wheel_position(&self) -> &WheelPosition {
        &self.tail().extra.position
    }
}

impl<T: Send + 'static, W: TimerWork<T>> ErasedPromise for TimerBlock<T, W> {
    fn notify(&self) {
        self.head().run_listeners();
    }

    fn cancel(&self, this: &AnyPromise) -> bool {
        // The position is in the block's second cache line. Loading it before the word is changed fetches both
        // lines at once: loads after an atomic operation start only when that is done.
        self.wheel_position().load();
        let Some((has_observers, work)) = self.cancel_work() else { return false };
        guard_drop(|| drop(work));
        registry::clear_timer(self.head().context.executor, self.wheel_position(), this);
        if has_observers {
            self.head().notify_cancelled(this);
        }
        true
    }

    fn timer(&self) -> Option<&dyn ErasedTimer> {
        Some(self)
    }
}

impl<T: Send + 'static, W: TimerWork<T>> AsDyn<dyn ErasedPromise> for TimerBlock<T, W> {
    fn as_dyn(&self) -> &(dyn ErasedPromise + 'static) {
        self
    }
}

fn complete<T: Send + 'static>(
    slot: &PromiseSlot<T>,
    this: &AnyPromise,
    unfilled: UnfilledSlot<'_, Outcome<T>, PromiseContext<T>>,
    outcome: Outcome<T>,
) {
    if unfilled.fill(outcome).is_ok_and(|has_observers| has_observers) {
        slot.notify_observers(this);
    }
}

struct OneShot<F>(F);

impl<T, F> TimerWork<T> for OneShot<F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    fn fire(timer: &TimerBlock<T, Self>, this: &AnyPromise, _: &dyn Fn() -> Nanos) -> Fired {
        let Some(claim) = timer.claim_uncancellable() else { return Fired::Cancelled };
        let (OneShot(closure), unfilled) = claim.take();
        let outcome = catch_unwind(AssertUnwindSafe(closure));
        let outcome =
            outcome.map_err(|payload| report_panic(UserCode::Timer, timer.origin(), payload));
        complete(timer.head(), this, unfilled, outcome);
        Fired::Ran
    }
}

struct Periodic<F> {
    closure: F,
    due: Nanos,
    repeat: Repeat,
}

impl<F: FnMut() + Send + 'static> TimerWork<()> for Periodic<F> {
    fn fire(timer: &TimerBlock<(), Self>, this: &AnyPromise, now: &dyn Fn() -> Nanos) -> Fired {
        let Some(mut claim) = timer.claim() else { return Fired::Cancelled };
        let run = |work: &mut Self| {
            catch_unwind(AssertUnwindSafe(&mut work.closure))?;
            work.due = work.repeat.next(work.due, now());
            Ok(work.due)
        };
        match claim.with(run) {
            Ok(due) => match claim.give_back() {
                None => Fired::Again(due),
                // Cancelled while it ran: that cancel left the closure to us. A later cancel drops the closure itself.
                Some(work) => {
                    drop(work);
                    Fired::Ran
                }
            },
            Err(payload) => {
                let (work, unfilled) = claim.take();
                let error = report_panic(UserCode::Timer, timer.origin(), payload);
                complete(timer.head(), this, unfilled, Err(error));
                drop(work); // Last, because its destructors may panic too.
                Fired::Ran
            }
        }
    }
}

/// A timer's position in the wheel of its loop. An atomic only because the timer is shared: it is written and
/// read on the loop.
#[derive(Debug)]
pub(crate) struct WheelPosition(AtomicU64);

impl WheelPosition {
    const NOT_IN_WHEEL: u64 = u64::MAX;

    fn new() -> Self {
        Self(AtomicU64::new(Self::NOT_IN_WHEEL))
    }

    pub(crate) fn set(&self, key: TimerKey) {
        self.0.store(key.to_bits(), Ordering::Relaxed);
    }

    /// Loads the position into the cache.
    fn load(&self) {
        std::hint::black_box(self.0.load(Ordering::Relaxed));
    }

    pub(crate) fn take(&self) -> Option<TimerKey> {
        let bits = self.0.load(Ordering::Relaxed);
        self.0.store(Self::NOT_IN_WHEEL, Ordering::Relaxed);
        (bits != Self::NOT_IN_WHEEL).then(|| TimerKey::from_bits(bits))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_timer_with_a_small_closure_fits_two_cache_lines() {
        fn size_of_timer<F: FnOnce() + Send + 'static>(_: F) -> usize {
            size_of::<TimerBlock<(), OneShot<F>>>()
        }
        let word = 7usize;
        assert_eq!(size_of_timer(|| ()), 112);
        assert_eq!(size_of_timer(move || assert_eq!(word, 7)), 120);
    }
}
