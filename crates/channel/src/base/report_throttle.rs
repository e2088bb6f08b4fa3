//! Throttles the reports of a fault that repeats.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the occurrences of one fault, from any thread. A repeated fault is reported at its 1st, 2nd, 4th, 8th …
/// occurrence, so that the number of reports grows with the logarithm of the number of faults.
#[derive(Debug, Default)]
pub(crate) struct ReportThrottle(AtomicU32);

impl ReportThrottle {
    /// Counts one occurrence. Returns the count so far if this occurrence should be reported.
    #[must_use]
    pub(crate) fn record(&self) -> Option<u32> {
        let (count, has_doubled) = self.record_and_count();
        has_doubled.then_some(count)
    }

    /// Counts one occurrence. Returns the count so far, and whether this occurrence should be reported.
    pub(crate) fn record_and_count(&self) -> (u32, bool) {
        // Relaxed: the count orders no other memory. It wraps to zero after 2³² occurrences.
        let count = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        (count, count.is_power_of_two())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c03_a_repeated_fault_is_reported_each_time_its_count_has_doubled() {
        let throttle = ReportThrottle::default();
        let reported: Vec<_> = (0..1000).filter_map(|_| throttle.record()).collect();
        assert_eq!(reported, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        let throttle = ReportThrottle(AtomicU32::new(u32::MAX));
        assert_eq!(throttle.record(), None, "an overflow does not panic");
        assert_eq!(throttle.record(), Some(1));
    }
}
