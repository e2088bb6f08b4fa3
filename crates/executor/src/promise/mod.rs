//! Promises and futures: an outcome that arrives later (P01–P08).
//!
//! A [`Promise`] is completed once, by its owner; its [`PromiseFuture`] is awaited, joined, listened to or
//! cancelled. Both belong to an executor; listeners run on the thread of that executor.
//!
//! ```text
//!   Promise ──set_success──►┌──────┐──► listeners, in order, on the executor
//!           ──set_failure──►│ slot │──► then the one consumer: .await, join, on_complete
//!           ──drop─────────►└──────┘◄── cancel
//! ```
//!
//! Rules:
//!
//! 1. One completion: success, failure, cancel or the drop of the promise. The slot's atomic word picks the winner.
//! 2. Listeners run on the executor's thread in the order in which they were added, whichever threads add them
//!    and complete the promise; nested at most sixteen deep, then queued. If the executor has terminated they
//!    run on the global executor.
//! 3. The consumer runs after the listeners that were added before completion, and gets the value itself.
//! 4. Without listeners the executor is not involved: completing costs one atomic operation.
//! 5. No lock is held while user code runs.
//! 6. Dropping a future detaches it; it never cancels.

mod any;
mod combine;
mod deadlock_check;
mod future;
pub(crate) mod observers;
mod progressive;
#[allow(clippy::module_inception, reason = "the type gives the file its name")]
mod promise;
mod shared;

pub(crate) use self::any::{AnyPromise, ErasedPromise};
pub(crate) use self::combine::{all, first};
pub use self::future::{Canceller, PromiseFuture};
pub(crate) use self::progressive::progressive_promise;
pub use self::progressive::{InvalidProgress, Progress, ProgressiveFuture, ProgressivePromise};
pub use self::promise::Promise;
pub(crate) use self::promise::{
    promise, promise_for_termination, promise_for_work, report_panic, source_line,
};
pub use self::shared::SharedFuture;
