//! The handle of an executor, its builder, and the other kinds of executors.
//!
//! - `submit`, `schedule`: the methods of the handle that accept tasks and timers.
//! - `builder`: the properties of an executor. `stats`: its counters. `labelled`: a handle that labels tasks.
//! - `sender`, `attachment`: for the layer above: commands of its own, and a value attached to an executor.
//! - `manual`, `manual_loop`: executors that the caller's thread drives.
//! - `pooled`: executors whose turns run on a shared thread pool.
//! - `global`, `immediate`: the executor of last resort, and the one that runs tasks on the calling thread.

pub(crate) mod attachment;
pub(crate) mod builder;
pub(crate) mod global;
pub(crate) mod immediate;
pub(crate) mod labelled;
pub(crate) mod manual;
pub(crate) mod manual_loop;
pub(crate) mod pooled;
mod schedule;
pub(crate) mod sender;
pub(crate) mod stats;
mod submit;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::engine::command::{Command, NoExtension, SystemCommand};
use crate::engine::current::{self, ExecutorId};
use crate::engine::hooks::{HookId, ShutdownHook};
use crate::engine::local_half::LocalHalf;
use crate::engine::shared_half::SharedHalf;
use crate::error::{Error, WaitError};
use crate::executor::builder::EventExecutorBuilder;
use crate::executor::labelled::LabelledExecutor;
use crate::executor::stats::ExecutorStats;
use crate::group::EventExecutorGroup;
use crate::group::shared::GroupMembership;
use crate::lifecycle::ExecutorState;
use crate::lifecycle::lease::HandleLease;
use crate::lifecycle::shutdown::InvalidShutdown;
use crate::promise::{
    ProgressiveFuture, ProgressivePromise, Promise, PromiseFuture, SharedFuture, all, first,
    progressive_promise, promise,
};
use crate::queue::rejection::Rejected;
use crate::raw::origin::Origin;
use crate::sync::lock;
use crate::thread::ThreadProperties;
use crate::wake::wake_word::Urgency;

/// A single-threaded executor: tasks run one at a time, in the order of their acceptance.
///
/// This is a handle: cloning it is cheap, and any thread may use it. The first submission starts the thread.
/// When the last handle is dropped, the executor shuts down by itself as soon as its queue is empty.
///
/// `X` is the command type of a layer above; users leave it out.
///
/// ```
/// use waterwheel_executor::EventExecutor;
///
/// let executor = EventExecutor::builder().name("worker").build()?;
/// executor.execute(|| println!("first"))?;
/// let answer = executor.submit(|| 6 * 7)?;
/// assert_eq!(answer.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventExecutor<X: Send + 'static = NoExtension> {
    shared: Arc<SharedHalf<X>>,
    /// `None` on handles made after the last user handle was dropped.
    lease: Option<Arc<HandleLease>>,
}

impl EventExecutor {
    /// Creates a builder.
    pub fn builder() -> EventExecutorBuilder {
        EventExecutorBuilder::new()
    }

    /// Returns the executor whose loop runs on this thread, if it has no commands of a layer above. On
    /// the thread of an event loop, ask for the event loop instead.
    ///
    /// ```
    /// use waterwheel_executor::EventExecutor;
    ///
    /// let executor = EventExecutor::builder().name("worker").build()?;
    /// let here = executor.submit(|| EventExecutor::current().map(|here| here.name().to_owned()))?;
    /// assert_eq!(here.join()?.as_deref(), Some("worker"));
    /// assert!(EventExecutor::current().is_none(), "this thread is no executor's");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        Self::current_of_kind()
    }
}

impl<X: Send + 'static> EventExecutor<X> {
    pub(crate) fn new(shared: Arc<SharedHalf<X>>) -> Self {
        let ending = shared.clone();
        let lease = Arc::new(HandleLease::new(move || ending.shut_down_when_empty()));
        *lock(&shared.lease) = Arc::downgrade(&lease);
        Self { shared, lease: Some(lease) }
    }

    /// Returns the executor whose loop runs on this thread, if its commands are of type `X`. For layers above;
    /// users call [`EventExecutor::current`].
    #[must_use]
    pub fn current_of_kind() -> Option<Self> {
        let current = current::get()?;
        current::with_local::<LocalHalf<X>, _>(current.id, |local| Self::of(local.shared().clone()))
    }

    pub(crate) fn of(shared: Arc<SharedHalf<X>>) -> Self {
        let lease = Weak::upgrade(&lock(&shared.lease));
        Self { shared, lease }
    }

    pub(crate) fn with_lease(shared: Arc<SharedHalf<X>>, lease: Option<Arc<HandleLease>>) -> Self {
        Self { shared, lease }
    }

    /// Makes the executor a child of a group: from now on the handles of the group keep it alive.
    pub(crate) fn join_group(self, membership: GroupMembership<X>, lease: Weak<HandleLease>) {
        *lock(&self.shared.lease) = lease;
        self.shared.join_group(membership);
        if let Some(own) = &self.lease {
            own.disarm();
        }
    }

    /// Returns the group that the executor is a child of, if any.
    #[must_use]
    pub fn parent(&self) -> Option<EventExecutorGroup<X>> {
        self.shared.group().map(EventExecutorGroup::from_shared)
    }

    /// Returns this executor, like [`EventExecutorGroup::next`] of a group of one.
    #[must_use]
    pub fn next(&self) -> Self {
        self.clone()
    }

    /// Returns this executor, like [`EventExecutorGroup::children`] of a group of one.
    pub fn children(&self) -> impl ExactSizeIterator<Item = Self> + '_ {
        std::iter::once(self.clone())
    }

    /// Returns the id of this executor, unique in the process.
    #[must_use]
    pub fn id(&self) -> ExecutorId {
        self.shared.id
    }

    /// Returns the name that the executor was built with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// True if the calling thread is this executor's.
    #[must_use]
    pub fn in_event_loop(&self) -> bool {
        self.shared.in_event_loop()
    }

    /// Returns this executor with a label for its tasks, which replaces their source line in reports of panics
    /// and in [`running`](Self::running).
    #[must_use]
    pub fn labelled(&self, label: &'static str) -> LabelledExecutor<X> {
        LabelledExecutor::new(self.clone(), label)
    }

    // Promises:

    /// Creates a promise whose listeners run on this executor.
    #[track_caller]
    pub fn new_promise<T: Send + 'static>(&self) -> (Promise<T>, PromiseFuture<T>) {
        promise(self.id())
    }

    /// Creates a promise that reports progress. Its listeners run on this executor.
    #[track_caller]
    pub fn new_progressive_promise<T: Send + 'static>(
        &self,
    ) -> (ProgressivePromise<T>, ProgressiveFuture<T>) {
        progressive_promise(self.id())
    }

    /// Returns a future that has already succeeded.
    #[track_caller]
    pub fn succeeded<T: Send + 'static>(&self, value: T) -> PromiseFuture<T> {
        let (promise, future) = self.new_promise();
        promise.set_success(value);
        future
    }

    /// Returns a future that has already failed.
    #[track_caller]
    pub fn failed<T: Send + 'static>(&self, error: Error) -> PromiseFuture<T> {
        let (promise, future) = self.new_promise();
        promise.set_failure(error);
        future
    }

    /// Returns a future for the values of all futures, in their order. The first failure fails the returned
    /// future; cancelling it cancels all of them. Its listeners run on this executor.
    #[track_caller]
    pub fn all<T: Send + 'static>(
        &self,
        futures: impl IntoIterator<Item = PromiseFuture<T>>,
    ) -> PromiseFuture<Vec<T>> {
        all(self.id(), futures)
    }

    /// Returns a future for the outcome of the future that completes first; it fails at once if `futures` is
    /// empty. Cancelling the returned future cancels all of them. Its listeners run on this executor.
    #[track_caller]
    pub fn first<T: Send + 'static>(
        &self,
        futures: impl IntoIterator<Item = PromiseFuture<T>>,
    ) -> PromiseFuture<T> {
        first(self.id(), futures)
    }

    // Lifecycle:

    /// Returns the state of the executor.
    #[must_use]
    pub fn state(&self) -> ExecutorState {
        self.shared.life.state()
    }

    /// True once a shutdown has begun.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.state() >= ExecutorState::ShuttingDown
    }

    /// True once new tasks are refused.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.state() >= ExecutorState::Shutdown
    }

    /// True once the executor has terminated: every accepted task has run, unless its loop died.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.state() == ExecutorState::Terminated
    }

    /// Begins a graceful shutdown: tasks are accepted until none has run for `quiet`, or `timeout` has passed;
    /// accepted tasks still run. Returns the termination future. Only the parameters of the first call count.
    ///
    /// [`DEFAULT_QUIET_PERIOD`](crate::DEFAULT_QUIET_PERIOD) and
    /// [`DEFAULT_SHUTDOWN_TIMEOUT`](crate::DEFAULT_SHUTDOWN_TIMEOUT) are good values.
    ///
    /// # Errors
    /// [`InvalidShutdown`] if `timeout` is shorter than `quiet`.
    pub fn shutdown_gracefully(
        &self,
        quiet: Duration,
        timeout: Duration,
    ) -> Result<SharedFuture<()>, InvalidShutdown> {
        self.shared.shut_down_gracefully(quiet, timeout)?;
        Ok(self.termination())
    }

    /// Refuses new tasks from now on, and runs the accepted ones. Returns the termination future.
    pub fn shutdown(&self) -> SharedFuture<()> {
        self.shared.shut_down_now();
        self.termination()
    }

    /// Returns the termination future: it completes when the executor has terminated, with an error if its loop
    /// died. Its listeners run on the global executor.
    pub fn termination(&self) -> SharedFuture<()> {
        self.shared.termination.clone()
    }

    /// Blocks until the executor has terminated or the timeout is reached.
    ///
    /// # Errors
    /// [`WaitError::WouldDeadlock`] on its own thread, [`WaitError::TimedOut`].
    pub fn await_termination(&self, timeout: Duration) -> Result<(), WaitError> {
        self.shared.termination.wait_timeout(timeout)
    }

    /// Blocks until the executor has terminated and its thread has exited, if the supplier gave the thread's
    /// handle.
    ///
    /// # Errors
    /// [`WaitError::WouldDeadlock`] on its own thread.
    pub fn join(&self) -> Result<(), WaitError> {
        self.shared.termination.wait()?;
        Ok(self.shared.join_thread()?)
    }

    /// Adds a hook that runs on the loop while it shuts down, after the hooks added before.
    ///
    /// # Errors
    /// [`Rejected`] with the closure, if the executor is shut down or its thread cannot be started.
    #[track_caller]
    pub fn add_shutdown_hook<F: FnOnce() + Send + 'static>(
        &self,
        hook: F,
    ) -> Result<HookId, Rejected<F>> {
        let (id, origin) = (HookId::next(), Origin::here());
        let permit = match self.shared.admit_system() {
            Ok(permit) => permit,
            Err(reason) => return Err(Rejected::new(hook, reason)),
        };
        let hook = Box::new(ShutdownHook { id, origin, run: Box::new(hook) });
        self.shared.push(permit, Command::System(SystemCommand::AddHook(hook)), Urgency::Now);
        Ok(id)
    }

    /// Removes a hook that has not run: at once on the loop, by a queued command on other threads.
    pub fn remove_shutdown_hook(&self, id: HookId) {
        if self.state() == ExecutorState::NotStarted {
            return; // No hook was ever added: adding a hook starts the thread.
        }
        let here = current::with_local::<LocalHalf<X>, _>(self.id(), |local| {
            local.hooks.borrow_mut().remove(id)
        });
        if here.flatten().is_some() {
            return;
        }
        if let Ok(permit) = self.shared.admit_system() {
            self.shared.push(permit, Command::System(SystemCommand::RemoveHook(id)), Urgency::Now);
        }
    }

    // Inspection:

    /// Returns the properties of the thread that the loop runs on; `None` before it has started.
    #[must_use]
    pub fn thread_properties(&self) -> Option<ThreadProperties> {
        self.shared.status.thread()
    }

    /// Returns the label or source line of the code that the loop is running now: the innermost task, listener or
    /// handler.
    #[must_use]
    pub fn running(&self) -> Option<Origin> {
        self.shared.status.activity.running()
    }

    /// Returns a snapshot of the loop's counters.
    #[must_use]
    pub fn stats(&self) -> ExecutorStats {
        let depth = self.shared.inbox.depth().total();
        let slow = self.shared.status.slow_work();
        self.shared.counters.snapshot(self.shared.inbox.wake_ups(), depth, slow)
    }

    pub(crate) fn shared(&self) -> &Arc<SharedHalf<X>> {
        &self.shared
    }
}

impl<X: Send + 'static> Clone for EventExecutor<X> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), lease: self.lease.clone() }
    }
}

impl<X: Send + 'static> PartialEq for EventExecutor<X> {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl<X: Send + 'static> Eq for EventExecutor<X> {}

impl<X: Send + 'static> fmt::Debug for EventExecutor<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}
