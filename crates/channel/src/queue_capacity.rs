//! Gives back the memory of a queue that a burst has made large.

use std::collections::VecDeque;

/// Queues keep room for so many items when they are empty, so that steady traffic allocates nothing: with
/// the items of 8 to 112 bytes that queues here have, 256 bytes to 3.5 KiB each.
const KEPT_CAPACITY: usize = 32;

/// Frees the room of an empty queue, unless it is small enough to keep.
#[inline]
pub(crate) fn shrink_if_empty<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && has_excess_capacity(queue) {
        *queue = VecDeque::new();
    }
}

/// True if the queue has more room than is kept.
#[inline]
pub(crate) fn has_excess_capacity<T>(queue: &VecDeque<T>) -> bool {
    queue.capacity() > KEPT_CAPACITY
}
