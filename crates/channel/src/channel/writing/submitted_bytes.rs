//! The word that counts the bytes on their way to a channel's loop, and remembers whether a thread elsewhere
//! saw the channel full because of them (C07).
//!
//! ```text
//!   top bit   WATCHED: another thread was told that there is no room
//!   the rest  bytes of writes that were submitted and have not arrived
//! ```
//!
//! # Whoever saw the channel full is told
//!
//! Bytes that the loop itself counts as pending are its own affair: it notices when they exceed the high mark,
//! and announces the writability afterwards. Bytes that are still on their way it may never see above the mark,
//! for a handler may shrink or drop what arrives. So a thread that finds no room sets WATCHED and looks again, at
//! the count that its read-modify-write replaced. If that still leaves no room because something is on its way,
//! the arrival comes later in the order of the word, and the loop, which looks at the bit after each arrival,
//! finds it and announces the writability. If nothing is on its way any more, the second look says so.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

const WATCHED: usize = 1 << (usize::BITS - 1);

/// The largest count. A message may say that it weighs more; the rest of its weight is not counted.
const MAX_BYTES: usize = WATCHED - 1;

/// Raised by whoever submits a write, lowered when that has arrived or is given up; watched by readers on any
/// thread, and asked by the loop.
pub(crate) struct SubmittedBytes(AtomicUsize);

impl SubmittedBytes {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Returns the bytes on their way.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed) & MAX_BYTES
    }

    /// Adds the bytes of a write, if `may_add` allows it beside those before. Returns how many were counted.
    pub(crate) fn add(&self, size: usize, mut may_add: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut counted = 0;
        let added = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let before = word & MAX_BYTES;
            counted = size.min(MAX_BYTES - before);
            may_add(before).then(|| word + counted)
        });
        added.is_ok().then_some(counted)
    }

    /// Takes off what [`add`](Self::add) has counted: it has arrived, or never will.
    pub(crate) fn remove(&self, counted: usize) {
        self.0.fetch_sub(counted, Ordering::Relaxed);
    }

    /// Asks whether there is room, on another thread than the loop's. If not, the loop announces the
    /// writability later.
    pub(crate) fn check_room(&self, has_room: impl Fn(usize) -> bool) -> bool {
        has_room(self.bytes()) || has_room(self.watch())
    }

    /// Marks that somebody saw no room. Returns the bytes on their way at that moment.
    fn watch(&self) -> usize {
        self.0.fetch_or(WATCHED, Ordering::Relaxed) & MAX_BYTES
    }

    /// True if a thread elsewhere saw no room since this was asked last. On the loop, after each arrival.
    pub(crate) fn take_watched(&self) -> bool {
        let is_watched = self.0.load(Ordering::Relaxed) & WATCHED != 0;
        is_watched && self.0.fetch_and(MAX_BYTES, Ordering::Relaxed) & WATCHED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn c07_submissions_are_counted_up_to_the_end_of_the_scale_and_keep_the_mark() {
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
