//! Timers: work that is due later (E13).
//!
//! ```text
//!   schedule ──► wheel ──► heap of begun ticks ──► due: behind the queued tasks
//!                 │ next deadline = how long the loop may sleep    │
//!   cancel ───────┘ closure dropped at once, on the calling        └─► run, unless cancelled
//!                   thread; taken out of the wheel later
//! ```
//!
//! - `entry`: one timer, shared by the loop that fires it and the handle that cancels it.
//! - `wheel`: all timers of a loop by deadline, in lists; scheduling and cancelling take constant time.
//! - `slab`: the table of the wheel's timers.
//! - `tick_heap`: the timers whose tick has begun, in exact order.
//! - `cancelled`: the cancelled timers that are still in the wheel.
//! - `periodic`: when a repeating timer is due again. `limit`: how many timers may be pending.

mod cancelled;
pub(crate) mod entry;
pub(crate) mod limit;
pub(crate) mod periodic;
mod slab;
mod tick_heap;
pub(crate) mod wheel;
#[cfg(all(test, not(loom)))]
mod wheel_model;

pub use self::periodic::MissedTicks;
pub use self::wheel::TimerKey;
