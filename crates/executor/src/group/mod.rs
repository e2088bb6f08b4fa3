//! Groups of executors (E01, E17).
//!
//! - `builder`: the properties of a group and of its children.
//! - `chooser`: which child gets the next piece of work.
//! - `shared`: the state that the handles of a group share, and the membership of a child.
//! - `children`, `growth`: the list of children, fixed or growing.
//! - `termination`: completes when all children have terminated.

pub(crate) mod builder;
pub(crate) mod children;
pub(crate) mod chooser;
mod growth;
pub(crate) mod shared;
pub(crate) mod termination;

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::command::NoExtension;
use crate::error::WaitError;
use crate::executor::EventExecutor;
use crate::group::builder::EventExecutorGroupBuilder;
use crate::group::shared::{GroupParts, GroupShared};
use crate::lifecycle::ExecutorState;
use crate::lifecycle::lease::HandleLease;
use crate::lifecycle::shutdown::InvalidShutdown;
use crate::promise::{PromiseFuture, SharedFuture};
use crate::queue::rejection::Rejected;
use crate::raw::origin::Origin;
use crate::timer::MissedTicks;
use crate::timer::periodic::Repeat;
use crate::wake::wake_word::Urgency;

/// Several executors behind one handle: each submission is queued on one of them, chosen by the group's
/// [`Chooser`](crate::Chooser); a shutdown applies to all.
///
/// The children exist from the start; their threads start at their first use. When the last handle of the group
/// and of its children is dropped, they all shut down by themselves.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_executor::EventExecutorGroup;
///
/// let group = EventExecutorGroup::builder().threads(4).name("worker").build()?;
/// let sum = group.all((1..=10).map(|n| group.submit(move || n * n).unwrap())).join()?;
/// assert_eq!(sum.iter().sum::<i32>(), 385);
/// group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventExecutorGroup<X: Send + 'static = NoExtension> {
    shared: Arc<GroupShared<X>>,
    /// `None` on handles made after the last user handle was dropped, and on handles made by
    /// [`without_lease`](Self::without_lease).
    lease: Option<Arc<HandleLease>>,
}

impl EventExecutorGroup {
    /// Creates the builder of a group without I/O: for work that would hold up an I/O loop.
    pub fn builder() -> EventExecutorGroupBuilder {
        EventExecutorGroupBuilder::new()
    }
}

impl<X: Send + 'static> EventExecutorGroup<X> {
    /// Makes a group of existing executors, at least one.
    pub(crate) fn of(children: Vec<EventExecutor<X>>, parts: GroupParts) -> Self {
        let (shared, lease) = GroupShared::of(children, parts);
        Self { shared, lease: Some(lease) }
    }

    pub(crate) fn from_shared(shared: Arc<GroupShared<X>>) -> Self {
        let lease = shared.weak_lease().upgrade();
        Self { shared, lease }
    }

    pub(crate) fn shared(&self) -> &Arc<GroupShared<X>> {
        &self.shared
    }

    /// Returns a handle that does not keep the group alive, for objects that live on the group's own loops: an
    /// ordinary handle there would keep the loops running.
    ///
    /// ```
    /// use waterwheel_executor::EventExecutorGroup;
    ///
    /// let group = EventExecutorGroup::builder().threads(1).build()?;
    /// let (own, ended) = (group.without_lease(), group.termination());
    /// assert_eq!(own, group);
    /// group.execute(move || drop(own))?;
    /// drop(group);
    /// ended.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn without_lease(&self) -> Self {
        Self { shared: self.shared.clone(), lease: None }
    }

    /// Returns the child that the group's chooser picks for the next piece of work.
    #[must_use]
    pub fn next(&self) -> EventExecutor<X> {
        self.child(self.shared.choose(None))
    }

    /// Returns the child for work that belongs to `key`: with a [`ByKey`](crate::ByKey) chooser, always the
    /// same one.
    #[must_use]
    pub fn next_for(&self, key: &impl Hash) -> EventExecutor<X> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        self.child(self.shared.choose(Some(hash)))
    }

    /// Returns the children, in order.
    pub fn children(&self) -> impl ExactSizeIterator<Item = EventExecutor<X>> + '_ {
        (0..self.shared.children.len()).map(|at| self.child(at))
    }

    pub(crate) fn attachment(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.shared.attachment.as_ref()
    }

    pub(crate) fn child(&self, at: usize) -> EventExecutor<X> {
        match self.shared.children.get(at) {
            Some(child) => EventExecutor::with_lease(child, self.lease.clone()),
            None => unreachable!("a group never has fewer children than before"),
        }
    }

    // Submission: all of these submit to `next()`.

    /// Queues a task on the next child: see [`EventExecutor::execute`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn execute<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), Rejected<F>> {
        self.next().execute_from(Origin::here(), Urgency::Now, task)
    }

    /// Queues a task on the next child and returns a future for its value: see [`EventExecutor::submit`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn submit<T, F>(&self, task: F) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.next().submit_from(Origin::here(), task)
    }

    /// Runs a task on the next child after a delay: see [`EventExecutor::schedule`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn schedule<T, F>(&self, delay: Duration, task: F) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.next().schedule_from(Origin::here(), delay, task)
    }

    /// Runs a task on the next child every `period`: see [`EventExecutor::schedule_at_fixed_rate`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn schedule_at_fixed_rate<F: FnMut() + Send + 'static>(
        &self,
        initial_delay: Duration,
        period: Duration,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        let repeat = Repeat::Rate { period, missed: MissedTicks::CatchUp };
        self.next().schedule_repeatedly(Origin::here(), initial_delay, repeat, task)
    }

    /// Runs a task on the next child again and again with a pause in between: see
    /// [`EventExecutor::schedule_with_fixed_delay`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn schedule_with_fixed_delay<F: FnMut() + Send + 'static>(
        &self,
        initial_delay: Duration,
        pause: Duration,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        let repeat = Repeat::Delay { pause };
        self.next().schedule_repeatedly(Origin::here(), initial_delay, repeat, task)
    }

    /// Returns a future for the values of all futures, in their order. Its listeners run on the next child.
    #[track_caller]
    pub fn all<T: Send + 'static>(
        &self,
        futures: impl IntoIterator<Item = PromiseFuture<T>>,
    ) -> PromiseFuture<Vec<T>> {
        crate::promise::all(self.next().id(), futures)
    }

    // Lifecycle:

    /// True once all children are shutting down.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.all_have_reached(ExecutorState::ShuttingDown)
    }

    /// True once all children refuse tasks.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.all_have_reached(ExecutorState::Shutdown)
    }

    /// True once all children have terminated.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.all_have_reached(ExecutorState::Terminated)
    }

    fn all_have_reached(&self, least: ExecutorState) -> bool {
        self.shared.children.with_all(|all| all.iter().all(|child| child.life.state() >= least))
    }

    /// Shuts all children down as [`EventExecutor::shutdown_gracefully`] does. Returns the group's termination
    /// future.
    ///
    /// # Errors
    /// [`InvalidShutdown`] if `timeout` is shorter than `quiet`; nothing is shut down then.
    pub fn shutdown_gracefully(
        &self,
        quiet: Duration,
        timeout: Duration,
    ) -> Result<SharedFuture<()>, InvalidShutdown> {
        if timeout < quiet {
            return Err(InvalidShutdown { quiet, timeout });
        }
        for child in self.shared.close_and_list() {
            child.shut_down_gracefully(quiet, timeout)?;
        }
        Ok(self.termination())
    }

    /// Makes all children refuse new tasks from now on; accepted tasks still run. Returns the group's
    /// termination future.
    pub fn shutdown(&self) -> SharedFuture<()> {
        for child in self.shared.close_and_list() {
            child.shut_down_now();
        }
        self.termination()
    }

    /// Returns the termination future: it completes when all children have terminated, with the first error if
    /// a loop died.
    pub fn termination(&self) -> SharedFuture<()> {
        self.shared.termination.clone()
    }

    /// Blocks until all children have terminated or the timeout is reached.
    ///
    /// # Errors
    /// [`WaitError::WouldDeadlock`] on the thread of a child, [`WaitError::TimedOut`].
    pub fn await_termination(&self, timeout: Duration) -> Result<(), WaitError> {
        self.shared.termination.wait_timeout(timeout)
    }
}

impl<X: Send + 'static> Clone for EventExecutorGroup<X> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), lease: self.lease.clone() }
    }
}

/// Handles of the same group are equal.
impl<X: Send + 'static> PartialEq for EventExecutorGroup<X> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<X: Send + 'static> Eq for EventExecutorGroup<X> {}

impl<X: Send + 'static> fmt::Debug for EventExecutorGroup<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shared.children.to_vec()).finish()
    }
}
