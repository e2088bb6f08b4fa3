//! The flag through which any thread wakes a future or a transport that lives on a loop.
//!
//! ```text
//!   waker, any thread                  loop
//!   ─────────────────                  ────
//!   makes the work visible             lower: swap(false)
//!   raise: swap(true)                  looks for work
//!     was low   → sends a command
//!     was high  → a command is already under way
//! ```
//!
//! # No wake is lost
//!
//! Both sides swap the same word, so one of the swaps is first. If `raise` finds the flag low, its command
//! makes the loop lower the flag and look. If `raise` finds the flag high, the loop has not lowered it yet: the
//! swap in `lower` will read the value that this raise wrote, or that a later raise wrote, and so acquires all
//! work made visible before it. A plain store in place of that swap would lower the flag without acquiring
//! anything, and the loop could miss the work of a waker that found the flag high. Work under a lock is seen
//! either way; but the wakers of a user's transport or future may use nothing stronger than relaxed atomics.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that any thread raises, and that the loop lowers before it looks for work.
pub(crate) struct WakeFlag(AtomicBool);

impl WakeFlag {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Raises the flag, after the work was made visible. Returns `true` if the caller has to send the loop a command.
    #[must_use = "if true, the loop does not look unless it is told"]
    pub(crate) fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Lowers the flag. Called on the loop, before it looks for work. Returns `false` if the flag was low: the loop has
    /// looked since the last raise.
    pub(crate) fn lower(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}
