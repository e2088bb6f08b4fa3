//! Timers: things that are due later (E13).
//!
//! ```text
//!   schedule ──► heap (by deadline, then by order of scheduling) ──► due: behind the queued tasks
//!                 │ peek = how long the loop may sleep                    │
//!   cancel ───────┘ closure dropped at once, wherever the caller is       └─► run, unless cancelled
//! ```
//!
//! - `heap`: the queue of deadlines; cancelling is O(log n).
//! - `entry`: one timer, shared by the loop that fires it and the handle that cancels it.
//! - `periodic`: when a repeating timer is due again.

pub(crate) mod entry;
pub(crate) mod heap;
pub(crate) mod periodic;

pub use self::heap::TimerKey;
pub use self::periodic::MissedTicks;
