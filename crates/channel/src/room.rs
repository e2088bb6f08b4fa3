//! Gives back the memory of a queue that a burst has made large.

use std::collections::VecDeque;

/// Queues keep room for so many items when they are empty, so that steady traffic allocates nothing: with
/// the items of 8 to 112 bytes that queues here have, 256 bytes to 3.5 KiB each.
const KEPT: usize = 32;

/// Frees the room of an empty queue, unless it is small enough to keep.
#[inline]
pub(crate) fn release_room<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && has_much_room(queue) {
        *queue = VecDeque::new();
    }
}

/// True if the queue has more room than is kept.
#[inline]
pub(crate) fn has_much_room<T>(queue: &VecDeque<T>) -> bool {
    queue.capacity() > KEPT
}
