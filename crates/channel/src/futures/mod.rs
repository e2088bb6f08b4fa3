//! SpawnedFutures on a loop: `spawn`, `spawn_local`, and what they await (L15).
//!
//! ```text
//!   waker, on the loop ──────────────► ready ──► polled once in the turn's task phase
//!   waker, elsewhere ──► inbox ──► command ──┘
//! ```
//!
//! Rules:
//! 1. A turn polls the futures that are ready when it comes to them, each once: one that wakes itself
//!    waits for the next turn.
//! 2. A wake allocates nothing, and wakes the loop only if it sleeps.
//! 3. SpawnedFutures are polled and dropped on the loop, and nowhere else.

mod interval;
mod join;
mod sleep;
mod spawned;

pub use self::interval::{Interval, interval, interval_with};
pub use self::join::LocalJoin;
pub(crate) use self::sleep::Sleepers;
pub use self::sleep::{Elapsed, Sleep, Timeout, sleep, timeout, yield_now};
pub(crate) use self::spawned::{FutureWaker, SpawnedFutures};
