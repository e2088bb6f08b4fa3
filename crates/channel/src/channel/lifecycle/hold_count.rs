//! The atomic word that counts the holds of a channel, and whether the loop waits for their end.
//!
//! ```text
//!   bit 31      WATCHED: the loop drains, and the last release has to wake it
//!   bits 0..31  holds
//! ```
//!
//! # No release is lost
//!
//! The loop sets WATCHED before it reads the count for the first time, and every later check is in a turn of
//! its own. Setting the bit and releasing a hold are both read-modify-writes of the same word, so they have an
//! order. If the release is first, the loop reads the lower count. If the bit is first, the release of the last
//! hold sees it in the value it replaced and sends the loop a command; the turn that takes the command checks.
//! There is no third order, and no second word that would have to be read at the right time.
//!
//! A loop that finds no hold sees everything the holders did before: the release stores with Release, the check
//! loads with Acquire, and a release in between is a read-modify-write, which continues the release sequence.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

const WATCHED: u32 = 1 << 31;

/// The count of holds. Threads that create or drop a hold change the count; only the loop checks it.
pub(crate) struct HoldCount(AtomicU32);

impl HoldCount {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Adds a hold. The count has 31 bits: more holds would take 16 GiB, at a word each.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a hold. Returns true if it was the last one and the caller has to wake the loop.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Release) == WATCHED | 1
    }

    /// Makes the release of the last hold wake the loop. Called by the loop before it checks.
    pub(crate) fn watch(&self) {
        self.0.fetch_or(WATCHED, Ordering::Relaxed);
    }

    /// True while there is a hold. Called by the loop.
    pub(crate) fn has_holds(&self) -> bool {
        self.0.load(Ordering::Acquire) & !WATCHED != 0
    }
}
