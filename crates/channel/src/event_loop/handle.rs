//! The handle of an event loop.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use waterwheel_executor::engine::CommandAccess;
use waterwheel_executor::{
    EventExecutor, ExecutorAttachment, Origin, PromiseFuture, Rejected, SharedFuture,
};

use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::Drained;
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::tail_tasks::{TailTask, TailTaskEntry};
use crate::futures::FutureWaker;
use crate::metrics::{Counters, LoopMetrics};

/// An event loop: an executor that also waits for the outside world.
///
/// This is a handle: cheap to clone, usable from any thread. It is an [`EventExecutor`] with more to
/// it, and offers all that one does. On its own thread, [`LocalLoop`] offers what needs no queue.
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
/// The queue of commands below it is not for users:
///
/// ```compile_fail
/// fn plumbing(event_loop: &waterwheel_channel::EventLoop) {
///     let _ = event_loop.sender();
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct EventLoop {
    executor: EventExecutor<LoopCommand>,
}

/// What the handles of a loop know of it.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) driver_name: &'static str,
    pub(crate) counters: Arc<Counters>,
    /// Set by the first who asks for a drain.
    pub(crate) drained: OnceLock<SharedFuture<Drained>>,
}

/// The channels of a loop are its load: they last, and each of them means work to come.
impl ExecutorAttachment for Attachment {
    fn load(&self) -> usize {
        self.counters.open_channels()
    }
}

impl EventLoop {
    pub(crate) fn new(executor: EventExecutor<LoopCommand>) -> Self {
        Self { executor }
    }

    /// The event loop that runs on this thread.
    #[must_use]
    pub fn current() -> Option<Self> {
        LocalLoop::current().map(|here| here.handle())
    }

    /// The group it is a child of, if it is one.
    #[must_use]
    pub fn parent(&self) -> Option<EventLoopGroup> {
        self.executor.parent().map(EventLoopGroup::new)
    }

    /// The loop for the next piece of work: itself, as in a group of one.
    #[must_use]
    pub fn next(&self) -> Self {
        self.clone()
    }

    /// What its driver is: `"epoll"`, `"poll"`, …
    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.attachment().map_or("none", |attachment| attachment.driver_name)
    }

    /// What the loop has done so far.
    #[must_use]
    pub fn metrics(&self) -> LoopMetrics {
        let stats = self.executor.stats();
        match self.attachment() {
            Some(attachment) => attachment.counters.snapshot(&stats),
            None => Counters::new().snapshot(&stats),
        }
    }

    pub(crate) fn drained(&self) -> &OnceLock<SharedFuture<Drained>> {
        match self.attachment() {
            Some(attachment) => &attachment.drained,
            None => unreachable!("event loops are built with one"),
        }
    }

    fn attachment(&self) -> Option<&Attachment> {
        let attached: &dyn Any = &**self.executor.attachment()?;
        attached.downcast_ref()
    }

    /// Runs a future on the loop, and returns a future of its outcome: cancelling that drops the one
    /// that runs, on the loop. A panic becomes an error. When the loop ends, so do its futures.
    ///
    /// # Errors
    /// [`Rejected`] with the future, as for [`EventExecutor::execute`].
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<PromiseFuture<F::Output>, Rejected<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let origin = Origin::here();
        let (mut promise, outcome) = self.executor.new_promise();
        let notifier = FutureWaker::new(self.executor.sender());
        let aborted = notifier.clone();
        promise.on_cancel(move || aborted.abort());
        let spawn = |future: F| {
            move || {
                if let Some(here) = LocalLoop::current() {
                    here.futures().spawn(notifier, origin, future, promise);
                }
            }
        };
        self.executor.execute_with(origin, future, spawn).map(|()| outcome)
    }

    /// Runs a task once, at the end of the turn: after the tasks that are queued, in the order of
    /// their addition.
    ///
    /// # Errors
    /// [`Rejected`] with the closure, if the loop is shut down or its thread cannot be had.
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
            LoopCommand::new(|here| here.tail().push(entry))
        })?;
        match handle {
            Some(handle) => Ok(handle),
            None => unreachable!("made when it was accepted"),
        }
    }

    /// Replaces the selector by a new one, as the loop does itself when it spins: for tests, and for
    /// operators who know better.
    ///
    /// # Errors
    /// [`Rejected`] if the loop is shut down or its thread cannot be had.
    pub fn rebuild(&self) -> Result<(), Rejected<()>> {
        self.executor.send_with((), |()| LoopCommand::new(LocalLoop::request_rebuild))
    }
}

/// An event loop is an executor.
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
