//! The handle of an executor: what users hold.

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

use crate::engine::command::{Command, NoExtension, System};
use crate::engine::current::{self, ExecutorId};
use crate::engine::hooks::{Hook, HookId};
use crate::engine::local_half::Local;
use crate::engine::shared_half::Shared;
use crate::error::{Error, WaitError};
use crate::executor::builder::EventExecutorBuilder;
use crate::executor::labelled::Labelled;
use crate::executor::stats::ExecutorStats;
use crate::group::EventExecutorGroup;
use crate::group::members::Membership;
use crate::lifecycle::State;
use crate::lifecycle::lease::Lease;
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
/// This is a handle: cloning it is cheap, and it may be used from any thread. The thread starts with
/// the first submission. When the last handle is dropped the executor shuts down by itself as soon
/// as its queue is empty.
///
/// `X` is for layers above, whose loops have commands of their own; users leave it out.
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
    shared: Arc<Shared<X>>,
    /// `None` on handles made after the last user handle was gone.
    lease: Option<Arc<Lease>>,
}

impl EventExecutor {
    /// Starts to build one.
    pub fn builder() -> EventExecutorBuilder {
        EventExecutorBuilder::new()
    }

    /// The executor whose loop runs on this thread, if it is one without commands of a layer above: on the
    /// thread of an event loop ask for that instead.
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
    pub(crate) fn new(shared: Arc<Shared<X>>) -> Self {
        let ending = shared.clone();
        let lease = Arc::new(Lease::new(move || ending.shut_down_when_empty()));
        *lock(&shared.lease) = Arc::downgrade(&lease);
        Self { shared, lease: Some(lease) }
    }

    /// The executor whose loop runs on this thread, if its commands are of type `X`: for layers above;
    /// users call [`EventExecutor::current`].
    #[must_use]
    pub fn current_of_kind() -> Option<Self> {
        let current = current::get()?;
        current::with_local::<Local<X>, _>(current.id, |local| Self::of(local.shared().clone()))
    }

    pub(crate) fn of(shared: Arc<Shared<X>>) -> Self {
        let lease = Weak::upgrade(&lock(&shared.lease));
        Self { shared, lease }
    }

    pub(crate) fn with_lease(shared: Arc<Shared<X>>, lease: Option<Arc<Lease>>) -> Self {
        Self { shared, lease }
    }

    /// Becomes a child: from now on its life hangs on the group's handles.
    pub(crate) fn join_group(self, membership: Membership<X>, lease: Weak<Lease>) {
        *lock(&self.shared.lease) = lease;
        self.shared.join_group(membership);
        if let Some(own) = &self.lease {
            own.void();
        }
    }

    /// The group it is a child of, if it is one.
    #[must_use]
    pub fn parent(&self) -> Option<EventExecutorGroup<X>> {
        self.shared.group().map(EventExecutorGroup::from_members)
    }

    /// The executor for the next piece of work: itself, as in a group of one.
    #[must_use]
    pub fn next(&self) -> Self {
        self.clone()
    }

    /// Itself, as in a group of one.
    pub fn children(&self) -> impl ExactSizeIterator<Item = Self> + '_ {
        std::iter::once(self.clone())
    }

    /// Names this executor among all of the process.
    #[must_use]
    pub fn id(&self) -> ExecutorId {
        self.shared.id
    }

    /// The name given when it was built.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether the calling thread is this executor's.
    #[must_use]
    pub fn in_event_loop(&self) -> bool {
        self.shared.in_event_loop()
    }

    /// This executor, whose tasks carry a label instead of their source line: in reports of panics,
    /// and as what the loop is doing right now.
    #[must_use]
    pub fn labelled(&self, label: &'static str) -> Labelled<X> {
        Labelled::new(self.clone(), label)
    }

    // Promises.

    /// A promise whose listeners run on this executor.
    #[track_caller]
    pub fn new_promise<T: Send + 'static>(&self) -> (Promise<T>, PromiseFuture<T>) {
        promise(self.id())
    }

    /// A promise that reports progress, whose listeners run on this executor.
    #[track_caller]
    pub fn new_progressive_promise<T: Send + 'static>(
        &self,
    ) -> (ProgressivePromise<T>, ProgressiveFuture<T>) {
        progressive_promise(self.id())
    }

    /// A future that has already succeeded.
    #[track_caller]
    pub fn succeeded<T: Send + 'static>(&self, value: T) -> PromiseFuture<T> {
        let (promise, future) = self.new_promise();
        promise.set_success(value);
        future
    }

    /// A future that has already failed.
    #[track_caller]
    pub fn failed<T: Send + 'static>(&self, error: Error) -> PromiseFuture<T> {
        let (promise, future) = self.new_promise();
        promise.set_failure(error);
        future
    }

    /// A future for the values of all futures, in their order; its listeners run on this executor.
    /// The first failure fails it; cancelling it cancels them all.
    #[track_caller]
    pub fn all<T: Send + 'static>(
        &self,
        futures: impl IntoIterator<Item = PromiseFuture<T>>,
    ) -> PromiseFuture<Vec<T>> {
        all(self.id(), futures)
    }

    /// A future for the outcome of whichever future completes first; its listeners run on this
    /// executor. Of none it fails at once; cancelling it cancels them all.
    #[track_caller]
    pub fn first<T: Send + 'static>(
        &self,
        futures: impl IntoIterator<Item = PromiseFuture<T>>,
    ) -> PromiseFuture<T> {
        first(self.id(), futures)
    }

    // Life.

    /// Where it is in its life.
    #[must_use]
    pub fn state(&self) -> State {
        self.shared.life.state()
    }

    /// Whether a shutdown was begun.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.state() >= State::ShuttingDown
    }

    /// Whether tasks are refused.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.state() >= State::Shutdown
    }

    /// Whether it is over: every accepted task has run.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.state() == State::Terminated
    }

    /// Begins to shut down: tasks are accepted until none has run for `quiet`, or `timeout` is over;
    /// what was accepted by then still runs. Returns the termination future. Only the first call's
    /// parameters count.
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

    /// Refuses new tasks from now on, and runs what was accepted.
    pub fn shutdown(&self) -> SharedFuture<()> {
        self.shared.shut_down_now();
        self.termination()
    }

    /// Completes when the executor has terminated: with an error if its loop died. Its listeners run
    /// on the global executor.
    pub fn termination(&self) -> SharedFuture<()> {
        self.shared.termination.clone()
    }

    /// Blocks until it has terminated or the time is up.
    ///
    /// # Errors
    /// [`WaitError::WouldDeadlock`] on its own thread, [`WaitError::TimedOut`].
    pub fn await_termination(&self, timeout: Duration) -> Result<(), WaitError> {
        self.shared.termination.wait_timeout(timeout)
    }

    /// Blocks until it has terminated and its thread is gone, if the supplier gave the handle.
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
    /// [`Rejected`] with the closure, if the executor is shut down or its thread cannot be had.
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
        let hook = Box::new(Hook { id, origin, run: Box::new(hook) });
        self.shared.push(permit, Command::System(System::AddHook(hook)), Urgency::Now);
        Ok(id)
    }

    /// Removes a hook that has not run. On the loop this is done at once, elsewhere in turn.
    pub fn remove_shutdown_hook(&self, id: HookId) {
        if self.state() == State::NotStarted {
            return; // The hook, if it was ever added, would have started the thread.
        }
        let here = current::with_local::<Local<X>, _>(self.id(), |local| {
            local.hooks.borrow_mut().remove(id)
        });
        if here.flatten().is_some() {
            return;
        }
        if let Ok(permit) = self.shared.admit_system() {
            self.shared.push(permit, Command::System(System::RemoveHook(id)), Urgency::Now);
        }
    }

    // Looking in.

    /// The thread it runs on; `None` before it has started.
    #[must_use]
    pub fn thread_properties(&self) -> Option<ThreadProperties> {
        self.shared.vitals.thread()
    }

    /// What the loop is doing right now: the label or source line of the running task. Of things that
    /// call each other it is the innermost.
    #[must_use]
    pub fn running(&self) -> Option<Origin> {
        self.shared.vitals.pulse.running()
    }

    /// What the loop has done so far.
    #[must_use]
    pub fn stats(&self) -> ExecutorStats {
        let depth = self.shared.inbox.depth().total();
        let slow = self.shared.vitals.slow();
        self.shared.counters.snapshot(self.shared.inbox.wake_ups(), depth, slow)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<X>> {
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
