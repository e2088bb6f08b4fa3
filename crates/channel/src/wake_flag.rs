//! The flag between whoever wakes a future or a transport, from any thread, and the loop that then looks.
//!
//! ```text
//!   waker                              loop
//!   ─────                              ────
//!   makes the work visible             lower: swap(false)
//!   raise: swap(true)                  looks for work
//!     it was low   → sends a command
//!     it was high  → one is on its way
//! ```
//!
//! # No wake is lost
//!
//! Both sides swap the one word, so one of them comes first. If the raise finds the flag low, its command
//! makes the loop lower the flag and look. If it finds the flag high, the loop has not lowered it yet: the
//! swap that does reads what the raise wrote, or what a later raise wrote, and acquires what was made
//! visible before it. A store in its place would lower the flag without acquiring anything, and the look
//! that follows could miss the work of a waker that relied on it. Work behind a lock is seen either way;
//! the wakers of a transport or a future of somebody else's may have no more than relaxed atomics.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// Raised by any thread, lowered by the loop before it looks.
pub(crate) struct WakeFlag(AtomicBool);

impl WakeFlag {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Raises the flag, after the work was made visible. `true`: the loop is to be told.
    #[must_use = "if true, the loop does not look unless it is told"]
    pub(crate) fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Lowers the flag. By the loop, before it looks.
    pub(crate) fn lower(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}
