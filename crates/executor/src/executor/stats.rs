//! What a loop has done so far, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;

/// A snapshot of an executor's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutorStats {
    /// Turns of the loop.
    pub turns: u64,
    /// Times the loop announced that it would sleep.
    pub sleeps: u64,
    /// Times another thread had to wake it: at most one per sleep.
    pub wake_ups: u64,
    /// User tasks run.
    pub tasks: u64,
    /// Timers waiting, at the end of the last pass.
    pub timers: usize,
    /// Commands accepted and not yet taken, user tasks and others; up to 64 too many while the loop
    /// is busy, because it settles its account in batches.
    pub queue_depth: usize,
    /// Pieces of work that have held the loop for longer than its [watchdog](crate::Watchdog) allows.
    pub slow_works: u64,
    /// How long the longest of them has, as it was last told.
    pub longest_hold: Duration,
}

/// Written by the loop's thread alone, so a plain load and store do; read by anyone. On a cache
/// line of its own, away from what producers write.
#[derive(Debug, Default)]
pub(crate) struct Counters(CachePadded<Counts>);

#[derive(Debug, Default)]
struct Counts {
    turns: AtomicU64,
    sleeps: AtomicU64,
    tasks: AtomicU64,
    timers: AtomicU64,
}

impl Counters {
    pub(crate) fn turn(&self) {
        add(&self.0.turns, 1);
    }

    pub(crate) fn sleep(&self) {
        add(&self.0.sleeps, 1);
    }

    pub(crate) fn tasks(&self, n: u64) {
        add(&self.0.tasks, n);
    }

    pub(crate) fn timers(&self, waiting: usize) {
        self.0.timers.store(waiting as u64, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(
        &self,
        wake_ups: u64,
        queue_depth: usize,
        (slow_works, longest_hold): (u64, Duration),
    ) -> ExecutorStats {
        ExecutorStats {
            turns: self.0.turns.load(Ordering::Relaxed),
            sleeps: self.0.sleeps.load(Ordering::Relaxed),
            wake_ups,
            tasks: self.0.tasks.load(Ordering::Relaxed),
            timers: self.0.timers.load(Ordering::Relaxed) as usize,
            queue_depth,
            slow_works,
            longest_hold,
        }
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}
