//! The word that counts the guards of a channel, and remembers whether their end is awaited.
//!
//! ```text
//!   bit 31      WATCHED: the loop drains, and wants to know when the last guard goes
//!   bits 0..31  guards
//! ```
//!
//! # No release is lost
//!
//! The loop sets WATCHED before it looks at the count for the first time, and every later look is in a
//! turn of its own. Setting the bit and taking one off are both read-modify-writes of the same word, so
//! one of them comes first. If the release does, the loop finds the lower count when it looks. If the bit
//! does, the release that takes the last guard away sees it in the value it replaced, and sends the loop a
//! command: the turn that takes the command looks. There is no third order, and no second word that would
//! have to be read at the right time.
//!
//! What the holder did before is seen by the loop that finds no guard: the release publishes, the look
//! acquires, and a later release in between, being a read-modify-write too, passes it on.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

const WATCHED: u32 = 1 << 31;

/// Raised and lowered by whoever has a guard, watched by the loop alone.
pub(crate) struct HoldCount(AtomicU32);

impl HoldCount {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// One more guard. Two thousand million of them, at a word each, are more than fit.
    pub(crate) fn take(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One guard less. `true`: it was the last, and the loop is to be told.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Release) == WATCHED | 1
    }

    /// From now on the loop is told when the last guard goes. By the loop, before it looks.
    pub(crate) fn watch(&self) {
        self.0.fetch_or(WATCHED, Ordering::Relaxed);
    }

    /// Whether there is a guard. By the loop.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) & !WATCHED != 0
    }
}
