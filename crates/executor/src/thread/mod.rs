//! The threads that loops run on (E05, E20).
//!
//! - [`supplier`]: the trait that supplies threads, the factory that makes a new one for each loop, and
//!   the properties of a loop's thread.
//! - [`pool`]: a fixed number of threads that pooled executors share.

pub(crate) mod pool;
pub(crate) mod supplier;

pub use self::supplier::{LoopBody, ThreadFactory, ThreadProperties, ThreadSupplier};
pub(crate) use self::supplier::{RunOrDiscard, TimerSlackGuard};
