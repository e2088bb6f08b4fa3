//! The work of a loop between two looks at its counters.

use std::time::Duration;

use serde::Serialize;
use waterwheel::channel::LoopMetrics;

/// A loop over the last interval, as the page shows it. Counts are per second, times of the lag in microseconds.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LoopSample {
    /// The name of the loop.
    pub name: String,
    /// The share of the interval that was spent waiting, from 0 to 1.
    pub wait: f64,
    /// The share that was spent on I/O events.
    pub io: f64,
    /// The share that was spent on tasks.
    pub tasks: f64,
    /// Turns.
    pub turns: f64,
    /// Waits ended by I/O events.
    pub by_io: f64,
    /// Waits ended by tasks of other threads.
    pub by_task: f64,
    /// Waits ended by timers.
    pub by_timer: f64,
    /// Queued commands, now.
    pub queue: usize,
    /// Pending timers, now.
    pub timers: usize,
    /// Channels, now.
    pub channels: usize,
    /// Bytes read.
    pub bytes_in: f64,
    /// Bytes written.
    pub bytes_out: f64,
    /// How long work waited that came just after the loop woke up.
    pub lag: LagSample,
}

/// Percentiles of the lag over the last interval, in microseconds: upper ends of the buckets, which are powers of two.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq)]
pub struct LagSample {
    /// Half of the turns were not longer.
    pub p50: f64,
    /// 99 of 100 turns were not longer.
    pub p99: f64,
    /// No turn was longer.
    pub max: f64,
}

impl LoopSample {
    /// Compares the counters of a loop with those of `elapsed` ago; with none, the loop has just begun to be watched.
    #[must_use]
    pub fn between(
        name: &str,
        before: Option<&LoopMetrics>,
        now: &LoopMetrics,
        elapsed: Duration,
    ) -> Self {
        let before = before.unwrap_or(now);
        let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let per_second = |field: fn(&LoopMetrics) -> u64| {
            field(now).saturating_sub(field(before)) as f64 / seconds
        };
        let share = |field: fn(&LoopMetrics) -> Duration| {
            (field(now).saturating_sub(field(before)).as_secs_f64() / seconds).clamp(0.0, 1.0)
        };
        let (io, tasks) = (share(|of| of.time_in_io), share(|of| of.time_in_tasks));
        Self {
            name: name.to_owned(),
            // Not from the counter: a wait in progress, which may last for minutes, is not in it.
            wait: (1.0 - io - tasks).max(0.0),
            io,
            tasks,
            turns: per_second(|of| of.turns),
            by_io: per_second(|of| of.wake_ups_by_io),
            by_task: per_second(|of| of.wake_ups_by_task),
            by_timer: per_second(|of| of.wake_ups_by_timer),
            queue: now.queue_depth,
            timers: now.timers,
            channels: now.channels,
            bytes_in: per_second(|of| of.bytes_read),
            bytes_out: per_second(|of| of.bytes_written),
            lag: LagSample::between(&before.lag, &now.lag),
        }
    }
}

impl LagSample {
    fn between(before: &[u64], now: &[u64]) -> Self {
        let turns: Vec<u64> =
            now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect();
        let total: u64 = turns.iter().sum();
        let percentile = |part: f64| {
            let wanted = (total as f64 * part).ceil() as u64;
            let mut seen = 0;
            let bucket = turns.iter().position(|count| {
                seen += count;
                seen >= wanted && seen > 0
            });
            bucket.map_or(0.0, bucket_end)
        };
        Self { p50: percentile(0.5), p99: percentile(0.99), max: percentile(1.0) }
    }
}

/// Returns the end of a bucket of powers of two of nanoseconds, in microseconds.
fn bucket_end(bucket: usize) -> f64 {
    2f64.powi(bucket as i32 + 1) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g04_percentiles_are_of_the_last_interval_only() {
        let mut before = [0; 64];
        before[30] = 1000; // Long turns, long ago.
        let mut now = before;
        now[10] += 98; // Up to 2048 ns.
        now[20] += 2; // Up to 2.1 ms.
        let lag = LagSample::between(&before, &now);
        assert_eq!(lag, LagSample { p50: 2.048, p99: 2097.152, max: 2097.152 });
    }

    #[test]
    fn g04_a_loop_without_turns_has_no_lag() {
        assert_eq!(LagSample::between(&[5; 64], &[5; 64]), LagSample::default());
    }
}
