//! The counters of a loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;

/// A snapshot of an executor's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutorStats {
    /// How many turns the loop has made.
    pub turns: u64,
    /// How often the loop announced a sleep.
    pub sleeps: u64,
    /// How often another thread had to wake the loop: at most once per sleep.
    pub wake_ups: u64,
    /// How many user tasks have run.
    pub tasks: u64,
    /// How many timers were pending at the end of the last pass.
    pub timers: usize,
    /// How many commands are accepted and not yet taken, user tasks and others. Up to 64 too high while the
    /// loop is busy, because it returns admissions in batches.
    pub queue_depth: usize,
    /// How many pieces of work have held the loop longer than its [watchdog](crate::Watchdog) allows.
    pub slow_works: u64,
    /// How long the slowest piece of work has held the loop, as last reported.
    pub longest_hold: Duration,
}

/// The counters of a loop, which only its thread writes, with plain loads and stores; any thread reads them. Kept on
/// a cache line of their own, apart from the words that producers write.
#[derive(Debug, Default)]
pub(crate) struct Counters(CachePadded<CounterCells>);

#[derive(Debug, Default)]
struct CounterCells {
    turns: AtomicU64,
    sleeps: AtomicU64,
    tasks: AtomicU64,
    timers: AtomicU64,
}

impl Counters {
    pub(crate) fn count_turn(&self) {
        add(&self.0.turns, 1);
    }

    pub(crate) fn count_sleep(&self) {
        add(&self.0.sleeps, 1);
    }

    pub(crate) fn add_tasks(&self, n: u64) {
        add(&self.0.tasks, n);
    }

    pub(crate) fn set_timers(&self, waiting: usize) {
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
