//! Counters of bytes, and how many passed in the last second.

use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel_executor::Nanos;

/// The time over which the throughput is measured: one second.
const WINDOW: u64 = 1_000_000_000;

/// Counts bytes. Any thread counts and reads at any time. Totals are exact; the throughput is an estimate: if two loops
/// begin a window at once, a few bytes may be counted in the other window.
#[derive(Debug, Default)]
pub(super) struct ThroughputMeter {
    total: AtomicU64,
    /// When the present window began.
    window_start: AtomicU64,
    /// The total at that time.
    total_at_start: AtomicU64,
    /// The bytes of the window before, per second.
    last_window: AtomicU64,
}

impl ThroughputMeter {
    pub(super) fn count(&self, bytes: u64, now: Nanos) {
        let start = self.window_start.load(Ordering::Relaxed);
        if now.0.saturating_sub(start) >= WINDOW {
            self.begin_window(start, now.0);
        }
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns about how many bytes were counted in the second before `now`.
    pub(super) fn per_second(&self, now: Nanos) -> u64 {
        let elapsed = now.0.saturating_sub(self.window_start.load(Ordering::Relaxed));
        let counted = self.total().saturating_sub(self.total_at_start.load(Ordering::Relaxed));
        if elapsed >= WINDOW {
            return scale(counted, WINDOW, elapsed);
        }
        // The part of the last window that is less than a second ago, and the present window.
        let before = self.last_window.load(Ordering::Relaxed);
        scale(before, WINDOW - elapsed, WINDOW).saturating_add(counted)
    }

    #[cold]
    fn begin_window(&self, start: u64, now: u64) {
        let began =
            self.window_start.compare_exchange(start, now, Ordering::Relaxed, Ordering::Relaxed);
        if began.is_ok() {
            let total = self.total();
            let counted = total.saturating_sub(self.total_at_start.swap(total, Ordering::Relaxed));
            self.last_window.store(scale(counted, WINDOW, now - start), Ordering::Relaxed);
        }
    }
}

/// Returns `value` times `part` divided by `whole`, which is not zero.
fn scale(value: u64, part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(part) / u128::from(whole)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k08_throughput_is_that_of_the_last_second() {
        let meter = ThroughputMeter::default();
        let at = |ms: u64| Nanos(5_000_000_000 + ms * 1_000_000);
        for ms in (0..3000).step_by(10) {
            meter.count(1000, at(ms));
        }
        assert_eq!(meter.total(), 300_000);
        assert_eq!(meter.per_second(at(2999)), 100_000 + 100);
        for ms in (3000..4000).step_by(10) {
            meter.count(500, at(ms));
        }
        assert!((50_000..=50_600).contains(&meter.per_second(at(3995))), "the new rate");
        assert_eq!(meter.per_second(at(13_000)), 5_000, "50,000 bytes in the last ten seconds");
        assert_eq!(meter.per_second(Nanos(0)), 100_000 + 50_000, "a clock that went back");
    }

    #[test]
    fn k08_an_unused_meter_shows_nothing() {
        let meter = ThroughputMeter::default();
        assert_eq!((meter.total(), meter.per_second(Nanos(u64::MAX))), (0, 0));
    }
}
