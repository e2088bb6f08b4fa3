//! What a loop has done so far, in numbers (O01).
//!
//! One block per loop, on cache lines of its own. The loop's thread alone writes it, so a plain load
//! and store do; anybody may look at any time. The clock is not read for it: a turn knows when its
//! wait, its I/O and its tasks ended, because it needs these times itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use waterwheel_executor::{ExecutorStats, Nanos};

/// A lag of up to 2⁰, 2¹, … nanoseconds; the last bucket takes the rest (beyond nine minutes).
pub const LAG_BUCKETS: usize = 40;

/// A snapshot of a loop's counters. The figures are taken one after the other, so they may be a turn
/// apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopMetrics {
    /// Turns of the loop.
    pub turns: u64,
    /// Waits that ended because a registration had something to say.
    pub wake_ups_by_io: u64,
    /// Waits that ended because another thread had something to do for the loop.
    pub wake_ups_by_task: u64,
    /// Waits that ended because a timer was due.
    pub wake_ups_by_timer: u64,
    /// Waits that ended early, with nothing to do.
    pub premature_returns: u64,
    /// Series of more than three premature returns.
    pub premature_series: u64,
    /// Waits that failed.
    pub failed_waits: u64,
    /// Times the selector was replaced.
    pub rebuilds: u64,
    /// Time spent waiting, spinning before a sleep included.
    pub time_waiting: Duration,
    /// Time spent on events.
    pub time_in_io: Duration,
    /// Time spent on tasks, timers, futures and tail tasks.
    pub time_in_tasks: Duration,
    /// Events handed out.
    pub ready_events: u64,
    /// User tasks and timers run.
    pub tasks: u64,
    /// Futures polled.
    pub futures_polled: u64,
    /// Commands accepted and not yet taken.
    pub queue_depth: usize,
    /// Timers waiting.
    pub timers: usize,
    /// Registrations, foreign ones included.
    pub registrations: usize,
    /// How long the turns took after their waits: what came just then had to wait that long.
    /// The bucket at `n` counts those of up to 2ⁿ nanoseconds and more than 2ⁿ⁻¹.
    pub lag: [u64; LAG_BUCKETS],
}

/// The block of one loop.
#[derive(Debug)]
pub(crate) struct Counters(CachePadded<Counts>);

#[derive(Debug)]
struct Counts {
    by_io: AtomicU64,
    by_task: AtomicU64,
    by_timer: AtomicU64,
    premature: AtomicU64,
    premature_series: AtomicU64,
    failed_waits: AtomicU64,
    rebuilds: AtomicU64,
    waiting: AtomicU64,
    in_io: AtomicU64,
    in_tasks: AtomicU64,
    events: AtomicU64,
    polled: AtomicU64,
    registrations: AtomicU64,
    lag: [AtomicU64; LAG_BUCKETS],
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It was not meant to block.
    None,
    Io,
    Task,
    Timer,
    Premature,
    Failed,
}

/// What a turn did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnRecord {
    pub(crate) cause: Cause,
    /// When the previous turn ended, and the phases of this one.
    pub(crate) began: Nanos,
    pub(crate) waited: Nanos,
    pub(crate) io_done: Nanos,
    pub(crate) tasks_done: Nanos,
    pub(crate) events: u64,
    pub(crate) polled: u64,
    pub(crate) registrations: usize,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self(CachePadded::new(Counts {
            by_io: zero(),
            by_task: zero(),
            by_timer: zero(),
            premature: zero(),
            premature_series: zero(),
            failed_waits: zero(),
            rebuilds: zero(),
            waiting: zero(),
            in_io: zero(),
            in_tasks: zero(),
            events: zero(),
            polled: zero(),
            registrations: zero(),
            lag: std::array::from_fn(|_| zero()),
        }))
    }

    /// A turn is over.
    pub(crate) fn turn(&self, turn: &TurnRecord) {
        let counts = &*self.0;
        match turn.cause {
            Cause::None => {}
            Cause::Io => add(&counts.by_io, 1),
            Cause::Task => add(&counts.by_task, 1),
            Cause::Timer => add(&counts.by_timer, 1),
            Cause::Premature => add(&counts.premature, 1),
            Cause::Failed => add(&counts.failed_waits, 1),
        }
        add(&counts.waiting, turn.waited.0 - turn.began.0);
        if turn.events > 0 {
            add(&counts.in_io, turn.io_done.0 - turn.waited.0);
            add(&counts.events, turn.events);
        }
        add(&counts.in_tasks, turn.tasks_done.0 - turn.io_done.0);
        if turn.polled > 0 {
            add(&counts.polled, turn.polled);
        }
        counts.registrations.store(turn.registrations as u64, Ordering::Relaxed);
        add(&counts.lag[lag_bucket(turn.tasks_done.0 - turn.waited.0)], 1);
    }

    pub(crate) fn premature_series(&self) {
        add(&self.0.premature_series, 1);
    }

    pub(crate) fn rebuilt(&self) {
        add(&self.0.rebuilds, 1);
    }

    pub(crate) fn snapshot(&self, executor: &ExecutorStats) -> LoopMetrics {
        let counts = &*self.0;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let time = |counter: &AtomicU64| Duration::from_nanos(get(counter));
        LoopMetrics {
            turns: executor.turns,
            wake_ups_by_io: get(&counts.by_io),
            wake_ups_by_task: get(&counts.by_task),
            wake_ups_by_timer: get(&counts.by_timer),
            premature_returns: get(&counts.premature),
            premature_series: get(&counts.premature_series),
            failed_waits: get(&counts.failed_waits),
            rebuilds: get(&counts.rebuilds),
            time_waiting: time(&counts.waiting),
            time_in_io: time(&counts.in_io),
            time_in_tasks: time(&counts.in_tasks),
            ready_events: get(&counts.events),
            tasks: executor.tasks,
            futures_polled: get(&counts.polled),
            queue_depth: executor.queue_depth,
            timers: executor.timers,
            registrations: get(&counts.registrations) as usize,
            lag: std::array::from_fn(|at| get(&counts.lag[at])),
        }
    }
}

/// The smallest `n` with `nanos ≤ 2ⁿ`, as far as there are buckets.
fn lag_bucket(nanos: u64) -> usize {
    let bits = u64::BITS - nanos.saturating_sub(1).leading_zeros();
    (bits as usize).min(LAG_BUCKETS - 1)
}

fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o01_lag_falls_into_the_bucket_of_its_power_of_two() {
        let of = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10), (1025, 11)];
        for (nanos, bucket) in of {
            assert_eq!(lag_bucket(nanos), bucket, "{nanos} ns");
        }
        assert_eq!(lag_bucket(u64::MAX), LAG_BUCKETS - 1);
    }

    #[test]
    fn o01_a_turn_is_divided_into_wait_io_and_tasks() {
        let counters = Counters::new();
        counters.turn(&TurnRecord {
            cause: Cause::Io,
            began: Nanos(100),
            waited: Nanos(150),
            io_done: Nanos(170),
            tasks_done: Nanos(180),
            events: 3,
            polled: 2,
            registrations: 7,
        });
        let metrics = counters.snapshot(&ExecutorStats::default());
        let nanos = Duration::from_nanos;
        assert_eq!(metrics.time_waiting, nanos(50));
        assert_eq!((metrics.time_in_io, metrics.time_in_tasks), (nanos(20), nanos(10)));
        assert_eq!((metrics.wake_ups_by_io, metrics.ready_events), (1, 3));
        assert_eq!((metrics.futures_polled, metrics.registrations), (2, 7));
        assert_eq!(metrics.lag.iter().sum::<u64>(), 1);
        assert_eq!(metrics.lag[5], 1, "30 ns is at most 2⁵");
    }
}
