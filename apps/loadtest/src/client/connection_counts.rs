//! `ConnectionCounts`: how many connections of a run are open, and how many were lost.

use std::cell::Cell;

/// Counts of the connections of subscribers. Belongs to the loop of the generator.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    open: Cell<usize>,
    opened: Cell<u64>,
    lost: Cell<u64>,
}

impl ConnectionCounts {
    /// Notes a connection whose subscription was answered.
    pub(crate) fn note_open(&self) {
        self.open.set(self.open.get() + 1);
        self.opened.set(self.opened.get() + 1);
    }

    /// Notes the end of an open connection, which its scenario wanted or not.
    pub(crate) fn note_end(&self, was_wanted: bool) {
        self.open.set(self.open.get() - 1);
        self.lost.set(self.lost.get() + u64::from(!was_wanted));
    }

    /// Returns how many are open now.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// Returns how many were opened so far.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.get()
    }

    /// Returns how many ended although the scenario did not want it.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.get()
    }
}
