//! What comes back when a task is not accepted, and who decides when the queue is full (E07, E08).

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A task that was not accepted. It was not run and never will be: the closure is in here.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_executor::EventExecutor;
///
/// let executor = EventExecutor::builder().build()?;
/// executor.shutdown_gracefully(Duration::ZERO, Duration::from_secs(1))?.wait()?;
/// let rejected = executor.execute(|| println!("never printed by the executor")).unwrap_err();
/// let task = rejected.into_task();
/// task(); // ours again
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Rejected<F> {
    task: F,
    reason: RejectReason,
}

/// Why a task was not accepted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// The executor is shut down.
    #[error("the executor is shut down")]
    ShutDown,
    /// The queue is at its bound.
    #[error("the queue is full: {bound} tasks are waiting")]
    QueueFull {
        /// The queue's bound.
        bound: u32,
    },
    /// As many timers are pending as may be.
    #[error("too many timers: {bound} are pending")]
    TooManyTimers {
        /// The bound of pending timers.
        bound: usize,
    },
    /// A repeating timer needs a period above zero.
    #[error("a repeating timer needs a period above zero")]
    ZeroPeriod,
    /// The executor's thread could not be had; the next submission tries again.
    #[error("the executor's thread could not be started: {0}")]
    NotStarted(Arc<io::Error>),
}

impl<F> Rejected<F> {
    pub(crate) fn new(task: F, reason: RejectReason) -> Self {
        Self { task, reason }
    }

    /// Why.
    pub fn reason(&self) -> &RejectReason {
        &self.reason
    }

    /// The task, handed back.
    pub fn into_task(self) -> F {
        self.task
    }
}

impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task rejected: {}", self.reason)
    }
}

impl<F> std::error::Error for Rejected<F> {}

/// Decides what happens to a submission that finds the queue full.
///
/// Whatever it decides, the task is not lost: it is accepted on a later attempt or handed back.
pub trait RejectionPolicy: Send + Sync {
    /// Called on the submitting thread, once per failed attempt. Must not block.
    fn on_full(&self, full: &QueueFull) -> OnFull;
}

impl<P: RejectionPolicy + ?Sized> RejectionPolicy for Arc<P> {
    fn on_full(&self, full: &QueueFull) -> OnFull {
        (**self).on_full(full)
    }
}

/// A submission that found the queue full.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QueueFull {
    /// The queue's bound.
    pub bound: u32,
    /// How many attempts failed so far, this one included.
    pub attempts: u32,
    /// Submitted from the loop's own thread: waiting would deadlock, so a retry is not possible.
    pub in_event_loop: bool,
}

/// What to do with a submission that found the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// Hand the task back.
    Reject,
    /// Wake the loop, wait this long, try again. On the loop's own thread this means `Reject`.
    RetryAfter(Duration),
}

/// Hands the task back at once. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reject;

impl RejectionPolicy for Reject {
    fn on_full(&self, _: &QueueFull) -> OnFull {
        OnFull::Reject
    }
}

/// Tries again a number of times, pausing in between; off the loop only.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    retries: u32,
    pause: Duration,
}

impl BackOff {
    /// Retries at most `retries` times with `pause` before each.
    #[must_use]
    pub fn new(retries: u32, pause: Duration) -> Self {
        Self { retries, pause }
    }
}

impl RejectionPolicy for BackOff {
    fn on_full(&self, full: &QueueFull) -> OnFull {
        if full.attempts <= self.retries { OnFull::RetryAfter(self.pause) } else { OnFull::Reject }
    }
}
