//! Counters of received, delivered and missed lines.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters written by the business threads and read by any thread. The counters are independent of each other, so
/// relaxed ordering is enough.
#[derive(Debug, Default)]
pub struct LineCounters {
    lines_in: AtomicU64,
    lines_out: AtomicU64,
    missed: AtomicU64,
}

/// The values of the counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Lines received from clients.
    pub received: u64,
    /// Lines added to the outbox of a client.
    pub delivered: u64,
    /// Lines dropped because an outbox was full.
    pub missed: u64,
}

impl LineCounters {
    pub(crate) fn line_in(&self) {
        self.lines_in.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn line_out(&self) {
        self.lines_out.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn missed(&self, lines: u64) {
        if lines > 0 {
            self.missed.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// Reads the counters.
    #[must_use]
    pub fn lines(&self) -> LineCounts {
        LineCounts {
            received: self.lines_in.load(Ordering::Relaxed),
            delivered: self.lines_out.load(Ordering::Relaxed),
            missed: self.missed.load(Ordering::Relaxed),
        }
    }
}
