//! Groups of executors (E01, E17).

pub(crate) mod builder;
pub(crate) mod children;
pub(crate) mod chooser;
mod growth;
pub(crate) mod members;
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
use crate::group::members::{GroupParts, Members};
use crate::lifecycle::State;
use crate::lifecycle::lease::Lease;
use crate::lifecycle::shutdown::InvalidShutdown;
use crate::promise::{PromiseFuture, SharedFuture};
use crate::queue::rejection::Rejected;
use crate::raw::origin::Origin;
use crate::timer::MissedTicks;
use crate::timer::periodic::Repeat;
use crate::wake::wake_word::Urgency;

/// Several executors behind one handle: each submission goes to one of them, chosen by the group's
/// [`Chooser`](crate::Chooser); a shutdown goes to all.
///
/// The children are there from the start, their threads start when they are first used. When the
/// last handle of the group and of its children is dropped, they all shut down by themselves.
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
    members: Arc<Members<X>>,
    /// `None` on handles made after the last user handle was gone, and on those that are to keep nothing
    /// alive.
    lease: Option<Arc<Lease>>,
}

impl EventExecutorGroup {
    /// Starts to build a group without I/O: for work that would hold an I/O loop up.
    pub fn builder() -> EventExecutorGroupBuilder {
        EventExecutorGroupBuilder::new()
    }
}

impl<X: Send + 'static> EventExecutorGroup<X> {
    /// Makes a group of executors that are there already; at least one.
    pub(crate) fn of(children: Vec<EventExecutor<X>>, parts: GroupParts) -> Self {
        let (members, lease) = Members::of(children, parts);
        Self { members, lease: Some(lease) }
    }

    pub(crate) fn from_members(members: Arc<Members<X>>) -> Self {
        let lease = members.weak_lease().upgrade();
        Self { members, lease }
    }

    pub(crate) fn members(&self) -> &Arc<Members<X>> {
        &self.members
    }

    /// A handle like any other, but for one thing: it does not keep the group alive. It is for what lives
    /// on the group's own loops, which would never end otherwise.
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
        Self { members: self.members.clone(), lease: None }
    }

    /// The child that the group's chooser picks for the next piece of work.
    #[must_use]
    pub fn next(&self) -> EventExecutor<X> {
        self.child(self.members.choose(None))
    }

    /// The child for work that belongs to `key`: with a [`ByKey`](crate::ByKey) chooser, always the
    /// same one.
    #[must_use]
    pub fn next_for(&self, key: &impl Hash) -> EventExecutor<X> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        self.child(self.members.choose(Some(hash)))
    }

    /// The children, in order.
    pub fn children(&self) -> impl ExactSizeIterator<Item = EventExecutor<X>> + '_ {
        (0..self.members.children.len()).map(|at| self.child(at))
    }

    pub(crate) fn attachment(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.members.attachment.as_ref()
    }

    pub(crate) fn child(&self, at: usize) -> EventExecutor<X> {
        match self.members.children.get(at) {
            Some(child) => EventExecutor::with_lease(child, self.lease.clone()),
            None => unreachable!("children become more, never fewer"),
        }
    }

    // Submitting: all of these go to `next()`.

    /// As [`EventExecutor::execute`], on the next child.
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn execute<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), Rejected<F>> {
        self.next().execute_from(Origin::here(), Urgency::Now, task)
    }

    /// As [`EventExecutor::submit`], on the next child.
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

    /// As [`EventExecutor::schedule`], on the next child.
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

    /// As [`EventExecutor::schedule_at_fixed_rate`], on the next child.
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

    /// As [`EventExecutor::schedule_with_fixed_delay`], on the next child.
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

    /// A future for the values of all futures, in their order; its listeners run on the next child.
    #[track_caller]
    pub fn all<T: Send + 'static>(
        &self,
        futures: impl IntoIterator<Item = PromiseFuture<T>>,
    ) -> PromiseFuture<Vec<T>> {
        crate::promise::all(self.next().id(), futures)
    }

    // Life.

    /// Whether all children are shutting down.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.all_are(State::ShuttingDown)
    }

    /// Whether all children refuse tasks.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.all_are(State::Shutdown)
    }

    /// Whether all children have terminated.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.all_are(State::Terminated)
    }

    fn all_are(&self, least: State) -> bool {
        self.members.children.look(|all| all.iter().all(|child| child.life.state() >= least))
    }

    /// Shuts all children down as [`EventExecutor::shutdown_gracefully`] does; returns the group's
    /// termination future.
    ///
    /// # Errors
    /// [`InvalidShutdown`] if `timeout` is shorter than `quiet`; then nothing has happened.
    pub fn shutdown_gracefully(
        &self,
        quiet: Duration,
        timeout: Duration,
    ) -> Result<SharedFuture<()>, InvalidShutdown> {
        if timeout < quiet {
            return Err(InvalidShutdown { quiet, timeout });
        }
        for child in self.members.last_children() {
            child.shut_down_gracefully(quiet, timeout)?;
        }
        Ok(self.termination())
    }

    /// Makes all children refuse new tasks from now on; what they accepted still runs.
    pub fn shutdown(&self) -> SharedFuture<()> {
        for child in self.members.last_children() {
            child.shut_down_now();
        }
        self.termination()
    }

    /// Completes when all children have terminated: with the first error, if a loop died.
    pub fn termination(&self) -> SharedFuture<()> {
        self.members.termination.clone()
    }

    /// Blocks until all children have terminated or the time is up.
    ///
    /// # Errors
    /// [`WaitError::WouldDeadlock`] on the thread of a child, [`WaitError::TimedOut`].
    pub fn await_termination(&self, timeout: Duration) -> Result<(), WaitError> {
        self.members.termination.wait_timeout(timeout)
    }
}

impl<X: Send + 'static> Clone for EventExecutorGroup<X> {
    fn clone(&self) -> Self {
        Self { members: self.members.clone(), lease: self.lease.clone() }
    }
}

/// Handles of the same group are equal.
impl<X: Send + 'static> PartialEq for EventExecutorGroup<X> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.members, &other.members)
    }
}

impl<X: Send + 'static> Eq for EventExecutorGroup<X> {}

impl<X: Send + 'static> fmt::Debug for EventExecutorGroup<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members.children.to_vec()).finish()
    }
}
