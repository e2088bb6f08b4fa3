//! The flag through which any thread wakes a future or a transport that lives on a loop.
//!
//! ```text
//!   waker, any thread                  loop
//!   ─────────────────                  ────
//!   makes the work visible             lower: swap(LOW)
//!   raise: swap(WOKEN)                 looks for work
//!     was LOW    → sends a command
//!     otherwise  → a command is already under way
//! ```
//!
//! # No wake is lost
//!
//! Both sides swap the same word, so one of the swaps is first. If `raise` finds the flag low, its command
//! makes the loop lower the flag and look. If `raise` finds a command under way, the loop has not lowered the flag
//! yet: the swap in `lower` will read the value that this raise wrote, or that a later raise wrote, and so acquires
//! all work made visible before it. A plain store in place of that swap would lower the flag without acquiring
//! anything, and the loop could miss the work of a waker that found the flag high. Work under a lock is seen
//! either way; but the wakers of a user's transport or future may use nothing stronger than relaxed atomics.
//!
//! # At most one command is under way
//!
//! Only `lower`, which the loop calls for a command that has arrived, makes the flag low. A loop that looks before the
//! command arrives calls `lower_early`: the flag becomes `LOOKED`, so a further raise sends no second command, and
//! the command that arrives finds nothing new.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, Ordering};

/// No command is under way.
const LOW: u8 = 0;
/// A command is under way, and the loop has looked for work since the last raise.
const LOOKED: u8 = 1;
/// A command is under way, and the loop has not looked for work since the last raise.
const WOKEN: u8 = 2;

/// A flag that any thread raises, and that the loop lowers before it looks for work.
pub(crate) struct WakeFlag(AtomicU8);

impl WakeFlag {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(LOW))
    }

    /// Raises the flag, after the work was made visible. Returns `true` if the caller has to send the loop a command.
    #[must_use = "if true, the loop does not look unless it is told"]
    pub(crate) fn raise(&self) -> bool {
        self.0.swap(WOKEN, Ordering::AcqRel) == LOW
    }

    /// Lowers the flag. Called on the loop when the command has arrived, before the loop looks for work. Returns
    /// `false` if the loop has looked since the last raise.
    pub(crate) fn lower(&self) -> bool {
        self.0.swap(LOW, Ordering::AcqRel) == WOKEN
    }

    /// Lowers the flag before the command arrives. Called on the loop, before it looks for work. Returns `false` if the
    /// loop has looked since the last raise.
    pub(crate) fn lower_early(&self) -> bool {
        // If this fails there is nothing to acquire: the loop has looked, or the raise that is not seen sends a command.
        self.0.compare_exchange(WOKEN, LOOKED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Makes every later raise return `false`, because there is nothing left to wake. Called on the loop.
    pub(crate) fn disable(&self) {
        self.0.store(WOKEN, Ordering::Relaxed);
    }
}
