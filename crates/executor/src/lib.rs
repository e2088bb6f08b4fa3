//! Single-threaded event executors: the base layer of Waterwheel.
//!
//! An [`EventExecutor`] is a queue and a thread: tasks submitted from any thread run one at a time, in order.
//! An executor never loses a task, never misses a wake-up, never wakes up in vain, and ends cleanly. [`Promise`]s carry
//! results, with listeners that run on the executor.
//!
//! ```
//! use std::time::Duration;
//! use waterwheel_executor::EventExecutor;
//!
//! let executor = EventExecutor::builder().name("worker").build()?;
//! let mut answer = executor.submit(|| 6 * 7)?;
//! answer.add_listener(|outcome| println!("on the executor: {outcome:?}"));
//! assert_eq!(answer.join()?, 42);
//!
//! let ended = executor.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?;
//! ended.join()?;
//! assert!(executor.execute(|| ()).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//!
//! ```text
//!   any thread                                             the loop's thread
//!   ──────────                                             ─────────────────
//!   executor   EventExecutor: submit, schedule, shut down  engine     one turn after the other:
//!     │        group: several of them behind one handle      │        sleep, run commands, check shutdown
//!     ▼                                                      ▼
//!   queue      admission word, inbox ──── commands ──────► local half: deque, timers, hooks
//!     │                                                      │
//!     └──────► wake word: is the loop asleep? unpark it ───► wake: park until work or a deadline
//! ```
//!
//! | folder | what it holds |
//! |---|---|
//! | `executor` | the handle [`EventExecutor`], its builder, and the other kinds: manual, immediate, global, pooled |
//! | `group` | [`EventExecutorGroup`]: several executors behind one handle, and who picks the next |
//! | [`engine`] | the loop: the phases of a turn, its shared and its local half, start and teardown |
//! | `queue` | how commands enter: admission word, inbox, rejection |
//! | `wake` | how a loop sleeps and is woken: wake word, parkers |
//! | `timer` | the timer wheel, one timer, repetition, the limit on pending timers |
//! | `promise` | promises, futures, listeners |
//! | `lifecycle` | the states of an executor, starting once, the shutdown's arithmetic, the last handle |
//! | `thread` | where loops get their threads from, and the thread pool |
//! | `report` | faults, their reporters, and the guard that catches panics of user code |
//! | `watchdog` | what a loop is doing, readable from any thread, and the thread that looks for slow work |
//! | `raw` | the only `unsafe` code: queue, promise slot, inline closures, memory pool |
//! | `clock`, `error`, `sync` | the one clock; errors of futures; std or loom primitives |
//!
//! `raw` and `sync` import nothing else; `clock`, `error`, `wake`, `queue` and `lifecycle` import only those and
//! each other; everything else is above (`scripts/arrows`).
#![deny(unsafe_code)]

mod clock;
pub mod engine;
mod error;
mod executor;
mod group;
mod lifecycle;
#[cfg(test)]
mod models;
mod promise;
mod queue;
mod raw;
mod report;
mod sync;
mod thread;
mod timer;
mod wake;
mod watchdog;

pub use crate::clock::{Clock, ClockAlarm, Nanos, VirtualClock};
pub use crate::engine::command::NoExtension;
pub use crate::engine::current::ExecutorId;
pub use crate::engine::hooks::HookId;
pub use crate::engine::loop_local::LoopLocal;
pub use crate::error::{Error, ErrorKind, WaitError, WouldDeadlock};
pub use crate::executor::EventExecutor;
pub use crate::executor::attachment::ExecutorAttachment;
pub use crate::executor::builder::{
    BuildError, EventExecutorBuilder, MAX_QUEUE_BOUND, MIN_QUEUE_BOUND,
};
pub use crate::executor::global::GlobalExecutor;
pub use crate::executor::immediate::ImmediateExecutor;
pub use crate::executor::labelled::LabelledExecutor;
pub use crate::executor::manual::ManualExecutor;
pub use crate::executor::manual_loop::ManualLoop;
pub use crate::executor::sender::CommandSender;
pub use crate::executor::stats::ExecutorStats;
pub use crate::group::EventExecutorGroup;
pub use crate::group::builder::{EventExecutorGroupBuilder, default_threads};
pub use crate::group::chooser::{ByKey, Choice, Chooser, LeastLoaded, RoundRobin};
pub use crate::lifecycle::ExecutorState;
pub use crate::lifecycle::shutdown::{
    DEFAULT_QUIET_PERIOD, DEFAULT_SHUTDOWN_TIMEOUT, InvalidShutdown,
};
pub use crate::promise::{
    Canceller, InvalidProgress, Progress, ProgressiveFuture, ProgressivePromise, Promise,
    PromiseFuture, SharedFuture,
};
pub use crate::queue::rejection::{
    BackOff, OnFull, QueueFull, Reject, RejectReason, Rejected, RejectionPolicy,
};
pub use crate::raw::origin::Origin;
pub use crate::report::log_reporter::LogReporter;
pub use crate::report::{Fault, Report, Reporter, UserCode};
pub use crate::thread::pool::ThreadPool;
pub use crate::thread::{LoopBody, ThreadFactory, ThreadProperties, ThreadSupplier};
pub use crate::timer::{MissedTicks, TimerKey};
pub use crate::wake::park::{Park, TokenPark, Unpark};
pub use crate::watchdog::call_site::{CallSite, CallSiteInfo};
pub use crate::watchdog::{
    Activity, DEFAULT_SLOW_LIMIT, InvalidWatchdog, MIN_SLOW_LIMIT, SlowWork, Watchdog,
    WatchdogBuilder,
};
