//! What a loop has done so far, in numbers (O01).
//!
//! One block per loop, on cache lines of its own. The loop's thread alone writes it, so a plain load
//! and store do; anybody may look at any time. The clock is not read for it: a turn knows when its
//! wait, its I/O and its tasks ended, because it needs these times itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use waterwheel_executor::{ExecutorStats, Nanos};

/// One bucket for each power of two that a lag in nanoseconds may begin with.
pub const LAG_BUCKETS: usize = 64;

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
    /// Time spent waiting, spinning before a sleep included; the wait that lasts is not in it yet.
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
    /// Channels, from their registration until they are closed.
    pub channels: usize,
    /// Bytes that channels have read; of messages that are not bytes, what they say they stand for.
    pub bytes_read: u64,
    /// Bytes that channels have written, counted in the same way.
    pub bytes_written: u64,
    /// Pieces of work that have held the loop for longer than its
    /// [watchdog](waterwheel_executor::Watchdog) allows.
    pub slow_works: u64,
    /// How long the longest of them has, as it was last told.
    pub longest_hold: Duration,
    /// How long the turns took after their wait: what came just then had to wait that long. The
    /// bucket at `n` counts turns of 2ⁿ nanoseconds and more, up to twice that.
    pub lag: [u64; LAG_BUCKETS],
}

/// The block of one loop.
#[derive(Debug)]
pub(crate) struct Counters(CachePadded<CounterBlock>);

#[derive(Debug)]
struct CounterBlock {
    waits: [AtomicU64; WAKE_CAUSES],
    premature_series: AtomicU64,
    rebuilds: AtomicU64,
    /// When the loop began, and when its last turn ended: what was spent neither on events nor on
    /// tasks was spent waiting.
    began: AtomicU64,
    turned: AtomicU64,
    in_io: AtomicU64,
    in_tasks: AtomicU64,
    events: AtomicU64,
    polled: AtomicU64,
    registrations: AtomicU64,
    channels: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    lag: [AtomicU64; LAG_BUCKETS],
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeCause {
    /// It was not meant to block.
    None,
    Io,
    Task,
    Timer,
    Premature,
    Failed,
}

const WAKE_CAUSES: usize = WakeCause::Failed as usize + 1;

/// When the phases of a turn ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnTimes {
    pub(crate) waited: Nanos,
    pub(crate) io_done: Nanos,
    pub(crate) tasks_done: Nanos,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self(CachePadded::new(CounterBlock {
            waits: std::array::from_fn(|_| zero()),
            premature_series: zero(),
            rebuilds: zero(),
            began: zero(),
            turned: zero(),
            in_io: zero(),
            in_tasks: zero(),
            events: zero(),
            polled: zero(),
            registrations: zero(),
            channels: zero(),
            bytes_read: zero(),
            bytes_written: zero(),
            lag: std::array::from_fn(|_| zero()),
        }))
    }

    /// The loop begins to turn.
    pub(crate) fn begin(&self, now: Nanos) {
        self.0.began.store(now.0, Ordering::Relaxed);
        self.0.turned.store(now.0, Ordering::Relaxed);
    }

    /// A turn is over: fifteen instructions, in a turn of one or two thousand.
    #[inline]
    pub(crate) fn turn(&self, cause: WakeCause, times: TurnTimes, events: u64) {
        if cfg!(without_counters) {
            return; // For `scripts/budgets`, which measures what the rest costs.
        }
        let counts = &*self.0;
        let TurnTimes { waited, io_done, tasks_done } = times;
        // Without a branch: what did not happen adds nothing.
        add(&counts.waits[cause as usize], 1);
        add(&counts.in_io, io_done.0 - waited.0);
        add(&counts.events, events);
        add(&counts.in_tasks, tasks_done.0 - io_done.0);
        add(&counts.lag[lag_bucket(tasks_done.0 - waited.0)], 1);
        counts.turned.store(tasks_done.0, Ordering::Relaxed);
    }

    /// Futures were polled.
    pub(crate) fn polled(&self, polled: u64) {
        add(&self.0.polled, polled);
    }

    pub(crate) fn registrations(&self, registrations: usize) {
        self.0.registrations.store(registrations as u64, Ordering::Relaxed);
    }

    pub(crate) fn open_channels(&self) -> usize {
        self.0.channels.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn channels(&self, channels: usize) {
        self.0.channels.store(channels as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn bytes_read(&self, bytes: usize) {
        add(&self.0.bytes_read, bytes as u64);
    }

    #[inline]
    pub(crate) fn bytes_written(&self, bytes: usize) {
        add(&self.0.bytes_written, bytes as u64);
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
        let waits = |cause: WakeCause| get(&counts.waits[cause as usize]);
        let time = |counter: &AtomicU64| Duration::from_nanos(get(counter));
        let (in_io, in_tasks) = (time(&counts.in_io), time(&counts.in_tasks));
        let total = time(&counts.turned).saturating_sub(time(&counts.began));
        LoopMetrics {
            turns: executor.turns,
            wake_ups_by_io: waits(WakeCause::Io),
            wake_ups_by_task: waits(WakeCause::Task),
            wake_ups_by_timer: waits(WakeCause::Timer),
            premature_returns: waits(WakeCause::Premature),
            premature_series: get(&counts.premature_series),
            failed_waits: waits(WakeCause::Failed),
            rebuilds: get(&counts.rebuilds),
            time_waiting: total.saturating_sub(in_io + in_tasks),
            time_in_io: in_io,
            time_in_tasks: in_tasks,
            ready_events: get(&counts.events),
            tasks: executor.tasks,
            futures_polled: get(&counts.polled),
            queue_depth: executor.queue_depth,
            timers: executor.timers,
            registrations: get(&counts.registrations) as usize,
            channels: get(&counts.channels) as usize,
            bytes_read: get(&counts.bytes_read),
            bytes_written: get(&counts.bytes_written),
            slow_works: executor.slow_works,
            longest_hold: executor.longest_hold,
            lag: std::array::from_fn(|at| get(&counts.lag[at])),
        }
    }
}

/// The power of two it begins with.
fn lag_bucket(nanos: u64) -> usize {
    (nanos | 1).ilog2() as usize
}

fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o01_lag_falls_into_the_bucket_of_its_power_of_two() {
        let of = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (1023, 9), (1024, 10), (1025, 10)];
        for (nanos, bucket) in of {
            assert_eq!(lag_bucket(nanos), bucket, "{nanos} ns");
        }
        assert_eq!(lag_bucket(u64::MAX), LAG_BUCKETS - 1);
    }

    #[test]
    fn o01_a_turn_is_divided_into_wait_io_and_tasks() {
        let counters = Counters::new();
        counters.begin(Nanos(100));
        let times = TurnTimes { waited: Nanos(150), io_done: Nanos(170), tasks_done: Nanos(180) };
        counters.turn(WakeCause::Io, times, 3);
        counters.polled(2);
        counters.registrations(7);
        let metrics = counters.snapshot(&ExecutorStats::default());
        let nanos = Duration::from_nanos;
        assert_eq!(metrics.time_waiting, nanos(50));
        assert_eq!((metrics.time_in_io, metrics.time_in_tasks), (nanos(20), nanos(10)));
        assert_eq!((metrics.wake_ups_by_io, metrics.ready_events), (1, 3));
        assert_eq!((metrics.futures_polled, metrics.registrations), (2, 7));
        assert_eq!(metrics.lag.iter().sum::<u64>(), 1);
        assert_eq!(metrics.lag[4], 1, "30 ns is at least 2⁴");
    }
}
