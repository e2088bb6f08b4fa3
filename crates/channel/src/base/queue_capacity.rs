//! Frees the capacity of queues that a burst has made large.

use std::collections::VecDeque;

/// The capacity in items that an empty queue keeps, so that steady traffic allocates nothing. Items of the queues
/// here have 8 to 112 bytes, so an empty queue keeps 256 bytes to 3.5 KiB.
pub(crate) const KEPT_CAPACITY: usize = 32;

/// Frees the capacity of an empty queue if it exceeds [`KEPT_CAPACITY`].
#[inline]
pub(crate) fn shrink_if_empty<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && has_excess_capacity(queue) {
        *queue = VecDeque::new();
    }
}

/// True if the queue has more capacity than an empty queue keeps.
#[inline]
pub(crate) fn has_excess_capacity<T>(queue: &VecDeque<T>) -> bool {
    queue.capacity() > KEPT_CAPACITY
}
