//! How often one fault has happened, so that a flood of it is not a flood of reports.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts one fault, on whichever thread it happens. A flood of it is one fault: it is worth a report each
/// time its number has doubled.
#[derive(Debug, Default)]
pub(crate) struct ReportThrottle(AtomicU32);

impl ReportThrottle {
    /// It has happened once more. How often it has by now, if that is to be reported.
    #[must_use]
    pub(crate) fn record(&self) -> Option<u32> {
        let (count, has_doubled) = self.record_and_count();
        has_doubled.then_some(count)
    }

    /// Counts it once more. Returns how often it has happened, and whether that number has doubled.
    pub(crate) fn record_and_count(&self) -> (u32, bool) {
        // Nothing else is read by it; and after four thousand million times it begins anew.
        let count = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        (count, count.is_power_of_two())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c03_a_flood_is_reported_each_time_it_has_doubled() {
        let flood = ReportThrottle::default();
        let reported: Vec<_> = (0..1000).filter_map(|_| flood.record()).collect();
        assert_eq!(reported, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        let flood = ReportThrottle(AtomicU32::new(u32::MAX));
        assert_eq!(flood.record(), None, "no overflow is a panic");
        assert_eq!(flood.record(), Some(1));
    }
}
