//! Single-threaded event executors: the ground floor of Waterwheel.
//!
//! An [`EventExecutor`] is a queue and a thread: tasks submitted from anywhere run one at a time, in
//! order. It never loses a task, never misses a wake-up, never wakes for nothing, and ends cleanly.
//! [`Promise`]s carry results, with listeners that run on the executor.
//!
//! ```
//! use std::time::Duration;
//! use waterwheel_executor::EventExecutor;
//!
//! let executor = EventExecutor::builder().name("worker").build()?;
//! let mut answer = executor.submit(|| 6 * 7)?;
//! answer.add_listener(|outcome| println!("told on the executor: {outcome:?}"));
//! assert_eq!(answer.join()?, 42);
//!
//! let ended = executor.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?;
//! ended.join()?;
//! assert!(executor.execute(|| ()).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rooms
//!
//! | to understand | read |
//! |---|---|
//! | how a task gets in | `inbox`, then `admission` (who may enter) and `wake` (who wakes the loop) |
//! | how the loop turns | [`engine`], then `run_loop` (its life and its teardown) |
//! | how it lives and dies | `lifecycle` (the states), `start`, `shutdown` |
//! | how timers work | `timer` (the entry, the wheel, repetition), on `raw::work` and `raw::pool` |
//! | how results travel | `promise`, on `raw::slot` |
//! | several executors as one | `group`, then `members` (what its handles share) and `group_end` |
//! | what a loop is seen doing | `pulse` (what it says), `watchdog` (who looks) |
//! | where `unsafe` is | `raw`, and nowhere else |
#![deny(unsafe_code)]

mod admission;
mod attached;
mod builder;
mod by_hand;
mod children;
mod chooser;
mod clock;
mod command;
mod current;
pub mod engine;
mod error;
mod executor;
mod free_slots;
mod global;
mod group;
mod group_builder;
mod group_end;
mod growth;
mod guard;
mod hooks;
mod immediate;
mod inbox;
mod labelled;
mod lease;
mod lifecycle;
mod local;
mod log_reporter;
mod loop_local;
mod manual;
mod members;
#[cfg(test)]
mod models;
mod park;
mod pooled;
mod promise;
mod pulse;
mod rate_limit;
mod raw;
mod registry;
mod rejected;
mod report;
mod run_loop;
mod schedule;
mod sender;
mod shared;
mod shutdown;
mod start;
mod station;
mod stats;
mod submit;
mod sync;
mod task_loop;
mod thread;
mod thread_pool;
mod timer;
mod timer_limit;
mod trampoline;
mod unrun;
mod vitals;
mod wake;
mod watchdog;

pub use crate::attached::Attached;
pub use crate::builder::{BuildError, EventExecutorBuilder, MAX_QUEUE_BOUND, MIN_QUEUE_BOUND};
pub use crate::by_hand::ByHand;
pub use crate::chooser::{ByKey, Choice, Chooser, LeastLoaded, RoundRobin};
pub use crate::clock::{Alarm, Clock, Nanos, VirtualClock};
pub use crate::command::NoExtension;
pub use crate::current::ExecutorId;
pub use crate::error::{Error, ErrorKind, WaitError, WouldDeadlock};
pub use crate::executor::EventExecutor;
pub use crate::global::GlobalExecutor;
pub use crate::group::EventExecutorGroup;
pub use crate::group_builder::{EventExecutorGroupBuilder, default_threads};
pub use crate::hooks::HookId;
pub use crate::immediate::ImmediateExecutor;
pub use crate::labelled::Labelled;
pub use crate::lifecycle::State;
pub use crate::log_reporter::LogReporter;
pub use crate::loop_local::LoopLocal;
pub use crate::manual::ManualExecutor;
pub use crate::park::{Park, TokenPark, Unpark};
pub use crate::promise::{
    Canceller, InvalidProgress, Progress, ProgressiveFuture, ProgressivePromise, Promise,
    PromiseFuture, SharedFuture,
};
pub use crate::raw::origin::Origin;
pub use crate::rejected::{
    BackOff, OnFull, QueueFull, Reject, RejectReason, Rejected, RejectionPolicy,
};
pub use crate::report::{Fault, Report, Reporter, UserCode};
pub use crate::sender::CommandSender;
pub use crate::shutdown::{DEFAULT_QUIET_PERIOD, DEFAULT_SHUTDOWN_TIMEOUT, InvalidShutdown};
pub use crate::station::{Place, Station};
pub use crate::stats::ExecutorStats;
pub use crate::thread::{LoopBody, ThreadFactory, ThreadProperties, ThreadSupplier};
pub use crate::thread_pool::ThreadPool;
pub use crate::timer::{MissedTicks, TimerKey};
pub use crate::watchdog::{
    Activity, DEFAULT_SLOW_LIMIT, InvalidWatchdog, MIN_SLOW_LIMIT, SlowWork, Watchdog,
    WatchdogBuilder,
};
