//! The counters of a loop, and the snapshot that users read (O01).
//!
//! Each loop has one block of counters, on cache lines of its own. Only the loop's thread writes it, so a plain
//! load and store suffice; any thread may read it at any time. Counting reads no clock: a turn knows when its wait,
//! its I/O and its tasks ended, because it needs these times itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use waterwheel_executor::{ExecutorStats, Nanos};

/// The number of lag buckets: one for each power of two in a 64-bit number of nanoseconds.
pub const LAG_BUCKETS: usize = 64;

/// A snapshot of a loop's counters. The fields are read one after the other, so they may be a turn apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopMetrics {
    /// The number of turns.
    pub turns: u64,
    /// The number of waits that ended because a registration was ready.
    pub wake_ups_by_io: u64,
    /// The number of waits that another thread ended by a task or a command.
    pub wake_ups_by_task: u64,
    /// The number of waits that ended because a timer was due.
    pub wake_ups_by_timer: u64,
    /// The number of waits that ended early, with nothing to do.
    pub premature_returns: u64,
    /// The number of times that more than three waits in a row returned early, with nothing to do.
    pub premature_series: u64,
    /// The number of waits that failed.
    pub failed_waits: u64,
    /// The number of times the selector was replaced.
    pub rebuilds: u64,
    /// The time spent waiting, including the spin before a sleep. A wait in progress is not included.
    pub time_waiting: Duration,
    /// The time spent on events.
    pub time_in_io: Duration,
    /// The time spent on tasks, timers, futures and tail tasks.
    pub time_in_tasks: Duration,
    /// The number of events dispatched.
    pub ready_events: u64,
    /// The number of user tasks and timers run.
    pub tasks: u64,
    /// The number of polls of futures.
    pub futures_polled: u64,
    /// The number of commands accepted and not yet taken from the queue.
    pub queue_depth: usize,
    /// The number of pending timers.
    pub timers: usize,
    /// The number of registrations, foreign ones included.
    pub registrations: usize,
    /// The number of channels, each counted from its registration until it is closed.
    pub channels: usize,
    /// The number of accepted connections that [guards](crate::AcceptGuard) of servers on this loop have refused.
    pub refused_connections: u64,
    /// The number of bytes that channels have read. A message that is not bytes counts the size it reports.
    pub bytes_read: u64,
    /// The number of bytes that channels have written. A message that is not bytes counts the size it reports.
    pub bytes_written: u64,
    /// The number of tasks, futures and callbacks that occupied the loop for longer than its
    /// [watchdog](waterwheel_executor::Watchdog) allows.
    pub slow_works: u64,
    /// The longest time that a task, future or callback occupied the loop, as last reported by the watchdog.
    pub longest_hold: Duration,
    /// A histogram of the time from the end of a turn's wait to the end of the turn: work that arrives just after
    /// the wait is delayed by that time. Bucket `n` counts turns of at least 2ⁿ and less than 2ⁿ⁺¹ nanoseconds.
    pub lag: [u64; LAG_BUCKETS],
}

/// The counters of one loop.
#[derive(Debug)]
pub(crate) struct LoopCounters(CachePadded<CounterBlock>);

#[derive(Debug)]
struct CounterBlock {
    waits: [AtomicU64; WAKE_CAUSES],
    premature_series: AtomicU64,
    rebuilds: AtomicU64,
    /// The start of the loop, and the end of its last turn. Time spent neither on events nor on tasks was spent
    /// waiting.
    started_at: AtomicU64,
    last_turn_end: AtomicU64,
    in_io: AtomicU64,
    in_tasks: AtomicU64,
    events: AtomicU64,
    polled: AtomicU64,
    registrations: AtomicU64,
    channels: AtomicU64,
    refused_connections: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    lag: [AtomicU64; LAG_BUCKETS],
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeCause {
    /// The wait did not block, or lasted until its limit.
    None,
    Io,
    Task,
    Timer,
    Premature,
    Failed,
}

const WAKE_CAUSES: usize = WakeCause::Failed as usize + 1;

/// The times at which the phases of a turn ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnTimes {
    pub(crate) waited: Nanos,
    pub(crate) io_done: Nanos,
    pub(crate) tasks_done: Nanos,
}

impl LoopCounters {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self(CachePadded::new(CounterBlock {
            waits: std::array::from_fn(|_| zero()),
            premature_series: zero(),
            rebuilds: zero(),
            started_at: zero(),
            last_turn_end: zero(),
            in_io: zero(),
            in_tasks: zero(),
            events: zero(),
            polled: zero(),
            registrations: zero(),
            channels: zero(),
            refused_connections: zero(),
            bytes_read: zero(),
            bytes_written: zero(),
            lag: std::array::from_fn(|_| zero()),
        }))
    }

    /// Records the time at which the loop starts.
    pub(crate) fn set_start(&self, now: Nanos) {
        self.0.started_at.store(now.0, Ordering::Relaxed);
        self.0.last_turn_end.store(now.0, Ordering::Relaxed);
    }

    /// Records a finished turn: fifteen instructions, in a turn of one or two thousand.
    #[inline]
    pub(crate) fn record_turn(&self, cause: WakeCause, times: TurnTimes, events: u64) {
        if cfg!(without_counters) {
            return; // For `scripts/budgets`, which measures the cost of a turn without counters.
        }
        let counts = &*self.0;
        let TurnTimes { waited, io_done, tasks_done } = times;
        // No branches: a phase that did nothing adds zero.
        add(&counts.waits[cause as usize], 1);
        add(&counts.in_io, io_done.0 - waited.0);
        add(&counts.events, events);
        add(&counts.in_tasks, tasks_done.0 - io_done.0);
        add(&counts.lag[lag_bucket(tasks_done.0 - waited.0)], 1);
        counts.last_turn_end.store(tasks_done.0, Ordering::Relaxed);
    }

    /// Adds to the number of polls of futures.
    pub(crate) fn add_polled(&self, polled: u64) {
        add(&self.0.polled, polled);
    }

    pub(crate) fn set_registrations(&self, registrations: usize) {
        self.0.registrations.store(registrations as u64, Ordering::Relaxed);
    }

    pub(crate) fn channel_count(&self) -> usize {
        self.0.channels.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_channels(&self, channels: usize) {
        self.0.channels.store(channels as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_refused_connection(&self) {
        add(&self.0.refused_connections, 1);
    }

    #[inline]
    pub(crate) fn add_bytes_read(&self, bytes: usize) {
        add(&self.0.bytes_read, bytes as u64);
    }

    #[inline]
    pub(crate) fn add_bytes_written(&self, bytes: usize) {
        add(&self.0.bytes_written, bytes as u64);
    }

    pub(crate) fn add_premature_series(&self) {
        add(&self.0.premature_series, 1);
    }

    pub(crate) fn add_rebuild(&self) {
        add(&self.0.rebuilds, 1);
    }

    pub(crate) fn snapshot(&self, executor: &ExecutorStats) -> LoopMetrics {
        let counts = &*self.0;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let waits = |cause: WakeCause| get(&counts.waits[cause as usize]);
        let time = |counter: &AtomicU64| Duration::from_nanos(get(counter));
        let (in_io, in_tasks) = (time(&counts.in_io), time(&counts.in_tasks));
        let total = time(&counts.last_turn_end).saturating_sub(time(&counts.started_at));
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
            refused_connections: get(&counts.refused_connections),
            bytes_read: get(&counts.bytes_read),
            bytes_written: get(&counts.bytes_written),
            slow_works: executor.slow_works,
            longest_hold: executor.longest_hold,
            lag: std::array::from_fn(|at| get(&counts.lag[at])),
        }
    }
}

/// Returns the index of the highest set bit; 0 for 0.
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
        let counters = LoopCounters::new();
        counters.set_start(Nanos(100));
        let times = TurnTimes { waited: Nanos(150), io_done: Nanos(170), tasks_done: Nanos(180) };
        counters.record_turn(WakeCause::Io, times, 3);
        counters.add_polled(2);
        counters.set_registrations(7);
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
