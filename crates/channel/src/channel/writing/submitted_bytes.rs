//! The atomic word that counts bytes on their way to a channel's loop, and remembers whether another thread saw
//! the channel full because of them (C07).
//!
//! ```text
//!   top bit   WATCHED: another thread has seen that there is no room
//!   the rest  bytes of writes that were submitted and have not arrived
//! ```
//!
//! # A thread that saw the channel full gets an announcement
//!
//! The loop itself notices when the bytes that it counts as pending exceed the high water mark, and announces
//! the writability afterwards. It may never see bytes that are still on their way above the mark, because a
//! handler may shrink or drop what arrives. So a thread that finds no room sets WATCHED and checks again, with
//! the count that its read-modify-write replaced. If there is still no room because something is on its way,
//! then the arrival is later in the modification order of the word, and the loop, which checks the bit after
//! each arrival, finds it and announces the writability. If nothing is on its way any more, the second check
//! returns true.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

const WATCHED: usize = 1 << (usize::BITS - 1);

/// The largest count. A message may claim a larger size; the excess is not counted.
const MAX_BYTES: usize = WATCHED - 1;

/// The count grows when a thread submits a write, and shrinks on arrival or when the write is given up. Any thread
/// may set WATCHED; the loop clears it.
pub(crate) struct SubmittedBytes(AtomicUsize);

impl SubmittedBytes {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Returns the bytes on their way.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed) & MAX_BYTES
    }

    /// Adds the bytes of a write, if `may_add` allows it beside the count so far. Returns the number of bytes
    /// counted.
    pub(crate) fn add(&self, size: usize, mut may_add: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut counted = 0;
        let added = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let before = word & MAX_BYTES;
            counted = size.min(MAX_BYTES - before);
            may_add(before).then(|| word + counted)
        });
        added.is_ok().then_some(counted)
    }

    /// Subtracts the bytes that [`add`](Self::add) has counted: the write has arrived, or never will.
    pub(crate) fn remove(&self, counted: usize) {
        self.0.fetch_sub(counted, Ordering::Relaxed);
    }

    /// Checks for room, on another thread than the loop's. After a `false` the loop announces the writability
    /// later.
    pub(crate) fn check_room(&self, has_room: impl Fn(usize) -> bool) -> bool {
        has_room(self.bytes()) || has_room(self.watch())
    }

    /// Marks that a thread saw no room. Returns the bytes on their way at that moment.
    fn watch(&self) -> usize {
        self.0.fetch_or(WATCHED, Ordering::Relaxed) & MAX_BYTES
    }

    /// Returns true if another thread saw no room since the last call. Called by the loop after each arrival.
    pub(crate) fn take_watched(&self) -> bool {
        let is_watched = self.0.load(Ordering::Relaxed) & WATCHED != 0;
        is_watched && self.0.fetch_and(MAX_BYTES, Ordering::Relaxed) & WATCHED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn c07_submitted_bytes_saturate_and_keep_the_watched_bit() {
        let submissions = SubmittedBytes::new();
        assert!(submissions.check_room(|bytes| bytes <= 9) && !submissions.take_watched());
        assert_eq!(submissions.add(10, |before| before == 0), Some(10));
        assert_eq!(submissions.add(1, |_| false), None, "refused, and not counted");
        assert!(!submissions.check_room(|bytes| bytes <= 9), "and this was noted");
        let all_else = submissions.add(usize::MAX, |before| before == 10).unwrap();
        assert_eq!((submissions.bytes(), all_else), (MAX_BYTES, MAX_BYTES - 10));
        submissions.remove(all_else);
        submissions.remove(10);
        assert!(submissions.take_watched() && !submissions.take_watched());
        assert_eq!(submissions.bytes(), 0);
    }
}
