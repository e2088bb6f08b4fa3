//! The handle of an event loop, for any thread.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use waterwheel_executor::engine::CommandAccess;
use waterwheel_executor::{
    EventExecutor, ExecutorAttachment, Origin, PromiseFuture, Rejected, SharedFuture,
};

use crate::base::metrics::{LoopCounters, LoopMetrics};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::Drained;
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::tail_tasks::{TailTask, TailTaskEntry};
use crate::futures::FutureWaker;

/// A handle to an event loop: an executor that also waits for I/O.
///
/// The handle is cheap to clone and usable from any thread. It dereferences to an [`EventExecutor`]. Code on the
/// loop's own thread can use [`LocalLoop`], which needs no queue.
///
/// ```
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::EventLoopGroup;
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let event_loop = group.next();
/// assert_eq!(event_loop.driver_name(), "task-only");
/// assert_eq!(event_loop.submit(|| 6 * 7)?.join()?, 42);
/// assert_eq!(event_loop.spawn(async { "awaited" })?.join()?, "awaited");
/// assert!(event_loop.metrics().turns > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The command queue of the loop is private:
///
/// ```compile_fail
/// fn use_sender(event_loop: &waterwheel_channel::EventLoop) {
///     let _ = event_loop.sender();
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct EventLoop {
    executor: EventExecutor<LoopCommand>,
}

/// The part of a loop that its handles share.
#[derive(Debug)]
pub(crate) struct LoopAttachment {
    pub(crate) driver_name: &'static str,
    pub(crate) counters: Arc<LoopCounters>,
    /// The future of the first drain that was requested.
    pub(crate) drain_outcome: OnceLock<SharedFuture<Drained>>,
}

/// The load of a loop is the number of its channels: channels are long-lived, and each of them causes work.
impl ExecutorAttachment for LoopAttachment {
    fn load(&self) -> usize {
        self.counters.channel_count()
    }
}

impl EventLoop {
    pub(crate) fn new(executor: EventExecutor<LoopCommand>) -> Self {
        Self { executor }
    }

    /// Returns the event loop that runs on the calling thread.
    #[must_use]
    pub fn current() -> Option<Self> {
        LocalLoop::current().map(|here| here.handle())
    }

    /// Returns the group of the loop, if it belongs to one.
    #[must_use]
    pub fn parent(&self) -> Option<EventLoopGroup> {
        self.executor.parent().map(EventLoopGroup::new)
    }

    /// Returns this loop: it is its own group of one.
    #[must_use]
    pub fn next(&self) -> Self {
        self.clone()
    }

    /// Returns the name of the driver: `"epoll"`, `"poll"`, …
    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.attachment().map_or("none", |attachment| attachment.driver_name)
    }

    /// Returns a snapshot of the loop's counters.
    #[must_use]
    pub fn metrics(&self) -> LoopMetrics {
        let stats = self.executor.stats();
        match self.attachment() {
            Some(attachment) => attachment.counters.snapshot(&stats),
            None => LoopCounters::new().snapshot(&stats),
        }
    }

    pub(crate) fn drain_outcome(&self) -> &OnceLock<SharedFuture<Drained>> {
        match self.attachment() {
            Some(attachment) => &attachment.drain_outcome,
            None => unreachable!("every event loop is built with an attachment"),
        }
    }

    fn attachment(&self) -> Option<&LoopAttachment> {
        let attached: &dyn Any = &**self.executor.attachment()?;
        attached.downcast_ref()
    }

    /// Runs a future on the loop, and returns a future of its outcome. Cancelling the returned future drops the
    /// running one, on the loop. A panic becomes an error. When the loop ends, its futures are dropped.
    ///
    /// # Errors
    /// [`Rejected`] with the future, as for [`EventExecutor::execute`].
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<PromiseFuture<F::Output>, Rejected<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.spawn_made(Origin::here(), future, |future| future)
    }

    /// Runs the future that `make` returns on the loop, as [`spawn`](Self::spawn) does. `make` is called on the loop, so
    /// the future need not be `Send`.
    ///
    /// ```
    /// use std::rc::Rc;
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{EventLoopGroup, yield_now};
    ///
    /// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
    /// let answer = group.next().spawn_with(|| async {
    ///     let local = Rc::new(42);
    ///     yield_now().await;
    ///     *local
    /// })?;
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Rejected`] with `make`, as for [`EventExecutor::execute`].
    #[track_caller]
    pub fn spawn_with<M, F>(&self, make: M) -> Result<PromiseFuture<F::Output>, Rejected<M>>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send> + 'static,
    {
        self.spawn_made(Origin::here(), make, |make| async move { make().await })
    }

    fn spawn_made<V, F>(
        &self,
        origin: Origin,
        value: V,
        make: impl FnOnce(V) -> F + Send + 'static,
    ) -> Result<PromiseFuture<F::Output>, Rejected<V>>
    where
        V: Send + 'static,
        F: Future<Output: Send> + 'static,
    {
        let (mut promise, outcome) = self.executor.new_promise();
        let future_waker = FutureWaker::new(self.executor.sender());
        let aborted = future_waker.clone();
        promise.on_cancel(move || aborted.abort());
        let spawn = |value: V| {
            move || {
                if let Some(here) = LocalLoop::current() {
                    here.futures().spawn(future_waker, origin, make(value), promise);
                }
            }
        };
        self.executor.execute_with(origin, value, spawn).map(|()| outcome)
    }

    /// Runs a task once, at the end of the turn: after the queued tasks, in the order of submission.
    ///
    /// # Errors
    /// [`Rejected`] with the closure, if the loop is shut down or its thread could not be started.
    #[track_caller]
    pub fn execute_after_turn<F>(&self, task: F) -> Result<TailTask, Rejected<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let origin = Origin::here();
        let mut handle = None;
        self.executor.send_with(task, |task| {
            let entry = Arc::new(TailTaskEntry::new(origin, Box::new(task)));
            handle = Some(TailTask::new(entry.clone()));
            LoopCommand::new(|here| here.tail_tasks().push(entry))
        })?;
        match handle {
            Some(handle) => Ok(handle),
            None => unreachable!("an accepted task has set its handle"),
        }
    }

    /// Replaces the selector by a new one, as the loop itself does when the selector spins. For tests and for
    /// operators who suspect a broken selector.
    ///
    /// # Errors
    /// [`Rejected`] if the loop is shut down or its thread could not be started.
    pub fn rebuild(&self) -> Result<(), Rejected<()>> {
        self.executor.send_with((), |()| LoopCommand::new(LocalLoop::request_rebuild))
    }
}

/// Offers all methods of an executor.
impl Deref for EventLoop {
    type Target = EventExecutor<LoopCommand>;

    fn deref(&self) -> &Self::Target {
        &self.executor
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventLoop").field(&self.executor).field(&self.driver_name()).finish()
    }
}
