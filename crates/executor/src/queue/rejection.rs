//! Rejected submissions, and the policies for a full queue (E07, E08).

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A task that was not accepted, handed back. The executor has not run the closure and never will.
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

/// The reason why a task was not accepted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// The executor is shut down.
    #[error("the executor is shut down")]
    ShutDown,
    /// The queue holds as many commands as its bound allows.
    #[error("the queue is full: {bound} tasks are waiting")]
    QueueFull {
        /// The queue's bound.
        bound: u32,
    },
    /// The executor has as many pending timers as its bound allows.
    #[error("too many timers: {bound} are pending")]
    TooManyTimers {
        /// The bound on pending timers.
        bound: usize,
    },
    /// The period of a repeating timer is zero.
    #[error("a repeating timer needs a period above zero")]
    ZeroPeriod,
    /// The executor's thread could not be started; the next submission tries again.
    #[error("the executor's thread could not be started: {0}")]
    NotStarted(Arc<io::Error>),
}

impl<F> Rejected<F> {
    pub(crate) fn new(task: F, reason: RejectReason) -> Self {
        Self { task, reason }
    }

    /// Returns why the task was not accepted.
    pub fn reason(&self) -> &RejectReason {
        &self.reason
    }

    /// Returns the task.
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
/// The task is never lost: it is accepted on a later attempt, or handed back.
pub trait RejectionPolicy: Send + Sync {
    /// Decides about one failed attempt. Called on the submitting thread, once per failed attempt. Must not
    /// block.
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
    /// How many attempts have failed so far, this one included.
    pub attempts: u32,
    /// True if the submitter is the loop's own thread: waiting there would deadlock, so a retry is not
    /// possible.
    pub in_event_loop: bool,
}

/// The decision about a submission that found the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// Hands the task back.
    Reject,
    /// Wakes the loop, waits this long, and tries again. On the loop's own thread this means `Reject`.
    RetryAfter(Duration),
}

/// A policy that hands the task back at once. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reject;

impl RejectionPolicy for Reject {
    fn on_full(&self, _: &QueueFull) -> OnFull {
        OnFull::Reject
    }
}

/// A policy that retries a number of times, with a pause before each attempt. On the loop's thread it rejects at once.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    retries: u32,
    pause: Duration,
}

impl BackOff {
    /// Creates a policy of at most `retries` retries, with `pause` before each.
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
