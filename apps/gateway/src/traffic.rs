//! How many lines the gateway has moved.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counted by the business threads, looked at by whoever likes. Each figure stands for itself, so no order
/// is asked for.
#[derive(Debug, Default)]
pub struct Traffic {
    lines_in: AtomicU64,
    lines_out: AtomicU64,
    missed: AtomicU64,
}

/// The figures at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines that clients have sent.
    pub received: u64,
    /// Lines that were put into the queue of a client.
    pub delivered: u64,
    /// Lines that a client did not get because its queue was full.
    pub missed: u64,
}

impl Traffic {
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

    /// How many there were so far.
    #[must_use]
    pub fn lines(&self) -> Lines {
        Lines {
            received: self.lines_in.load(Ordering::Relaxed),
            delivered: self.lines_out.load(Ordering::Relaxed),
            missed: self.missed.load(Ordering::Relaxed),
        }
    }
}
