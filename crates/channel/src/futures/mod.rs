//! Futures on a loop: `spawn`, `spawn_local`, and the sleeps and intervals that they await (L15).
//!
//! ```text
//!   wake on the loop ───────────────────► ready list  ──► polled once in the turn's task phase
//!   wake elsewhere ──► command ───────────────┘
//! ```
//!
//! Rules:
//! 1. A turn polls the futures that are ready when their part of the task phase begins, each once: a future that
//!    wakes itself waits for the next turn.
//! 2. A wake does not allocate, and wakes the loop only if it sleeps. A future has at most one command under way or one
//!    entry in the ready list, however many threads wake it.
//! 3. Futures are polled and dropped only on the loop, also if the last waker is dropped elsewhere.
//! 4. Wakes of a future that has ended do nothing: they send no command, whether its loop runs or not.

mod interval;
mod join;
mod ready_list;
mod scope;
mod sleep;
mod spawned;

pub use self::interval::{Interval, interval, interval_with};
pub use self::join::LocalJoin;
pub use self::scope::TaskScope;
pub(crate) use self::sleep::Sleepers;
pub use self::sleep::{Elapsed, Sleep, Timeout, sleep, sleep_until, timeout, yield_now};
pub(crate) use self::spawned::{FutureWaker, SpawnedFutures};
