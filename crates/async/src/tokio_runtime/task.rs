//! A task on a tokio runtime, as a future that any thread awaits.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::{JoinError, JoinHandle};
use waterwheel_executor::engine::panic_message;
use waterwheel_executor::{Error, Origin};

/// A task on a tokio runtime: a future that returns the task's output. Created by
/// [`TokioRuntime::spawn`](crate::TokioRuntime::spawn).
///
/// Dropping the value aborts the task: the runtime drops the task's future at its next await. A future that awaits a
/// `TokioTask` therefore cancels it by being dropped, with its channel or by losing a `select`. This is unlike tokio's
/// `JoinHandle`; call [`detach`](Self::detach) to let the task continue.
///
/// # Cancel safety
///
/// Awaiting `&mut task` is cancel safe: if that await is dropped, the task continues, and a later await returns its
/// output. Awaiting `task` by value and dropping that await aborts the task; an output that was there and not taken is
/// dropped.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_async::TokioRuntime;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{EventLoopGroup, timeout};
///
/// # let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
/// let runtime = TokioRuntime::new(tokio.handle().clone());
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let never = runtime.spawn(std::future::pending::<()>());
/// // The timeout drops the TokioTask, which aborts the task on the tokio runtime.
/// let result = group.next().spawn(async { timeout(Duration::from_millis(1), never).await })?;
/// assert!(result.join()?.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the task is aborted when this value is dropped: await it, or detach it"]
pub struct TokioTask<T> {
    join: JoinHandle<T>,
    origin: Origin,
    is_detached: bool,
}

/// The reason why a [`TokioTask`] has no output.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokioTaskError {
    /// The future of the task panicked.
    #[error("tokio task from {origin} panicked: {message}")]
    Panicked {
        /// The label of the runtime's handle, or the source line of the call.
        origin: Origin,
        /// The panic's message.
        message: String,
    },
    /// The runtime is shut down. It has dropped the task's future: before its first poll, or at an await.
    #[error("tokio task from {origin} was dropped: its runtime is shut down")]
    RuntimeGone {
        /// The label of the runtime's handle, or the source line of the call.
        origin: Origin,
    },
}

impl<T> TokioTask<T> {
    pub(super) fn new(join: JoinHandle<T>, origin: Origin) -> Self {
        Self { join, origin, is_detached: false }
    }

    /// Lets the task continue without this value. Its output is dropped; a panic goes to the panic hook only.
    pub fn detach(mut self) {
        self.is_detached = true;
    }

    /// Aborts the task and waits until its future is dropped. Returns the output if the task had completed before, and
    /// `None` if it was aborted or had panicked.
    ///
    /// The wait is as long as the task takes to reach its next await, on a runtime that some thread drives. Dropping the
    /// returned future ends the wait; the task is aborted all the same.
    ///
    /// # Panics
    /// If the output was already returned, to a caller that awaited `&mut task`.
    pub async fn cancel(mut self) -> Option<T> {
        self.join.abort();
        (&mut self).await.ok()
    }

    /// True if the task has completed, has panicked or was dropped by its runtime: awaiting it does not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.join.is_finished()
    }
}

impl<T> Future for TokioTask<T> {
    type Output = Result<T, TokioTaskError>;

    /// # Panics
    /// If the task is polled again after it has returned `Ready`.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let origin = self.origin;
        let joined = Pin::new(&mut self.join).poll(context);
        joined.map(|result| result.map_err(|error| TokioTaskError::new(error, origin)))
    }
}

impl<T> Drop for TokioTask<T> {
    fn drop(&mut self) {
        if !self.is_detached {
            self.join.abort(); // Without effect on a task that is finished.
        }
    }
}

impl<T> fmt::Debug for TokioTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioTask")
            .field("origin", &self.origin)
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

impl TokioTaskError {
    fn new(error: JoinError, origin: Origin) -> Self {
        match error.try_into_panic() {
            Ok(payload) => Self::Panicked { origin, message: panic_message(payload) },
            // Only `cancel` and a drop abort the task, and neither looks at the error: so it was the runtime.
            Err(_cancelled) => Self::RuntimeGone { origin },
        }
    }
}

impl From<TokioTaskError> for Error {
    fn from(error: TokioTaskError) -> Self {
        Self::new(error)
    }
}
