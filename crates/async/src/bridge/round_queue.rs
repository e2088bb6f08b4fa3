//! The queue of messages and errors between a pipeline and its reader.

use std::collections::VecDeque;

use waterwheel_executor::Error;

/// The capacity from which the empty queue is freed.
const KEPT_CAPACITY: usize = 64;

/// The number of errors that wait for the reader at once. More pass on to the end of the pipeline, which reports them.
pub(crate) const MAX_ERRORS: usize = 16;

/// The messages of one round of reads, and the errors of the pipeline among them.
pub(crate) struct RoundQueue<In> {
    items: VecDeque<Result<In, Error>>,
    /// The number of errors among the items.
    errors: usize,
}

impl<In> RoundQueue<In> {
    pub(crate) fn push(&mut self, item: Result<In, Error>) {
        self.errors += usize::from(item.is_err());
        self.items.push_back(item);
    }

    /// True if as many errors wait as may.
    pub(crate) fn is_full_of_errors(&self) -> bool {
        self.errors >= MAX_ERRORS
    }

    pub(crate) fn pop(&mut self) -> Option<Result<In, Error>> {
        let item = self.items.pop_front()?;
        self.errors -= usize::from(item.is_err());
        if self.items.is_empty() && self.items.capacity() > KEPT_CAPACITY {
            self.items = VecDeque::new();
        }
        Some(item)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Moves the items of `other` behind those of this queue. If this queue is empty, the two are exchanged, so that
    /// nothing is copied or allocated.
    pub(crate) fn take_from(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
        } else {
            self.items.append(&mut other.items);
            self.errors += std::mem::take(&mut other.errors);
        }
    }
}

impl<In> Default for RoundQueue<In> {
    fn default() -> Self {
        Self { items: VecDeque::new(), errors: 0 }
    }
}
