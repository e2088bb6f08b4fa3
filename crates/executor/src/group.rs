//! Groups of executors (E01, E17).

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::chooser::{Choice, Chooser, RoundRobin};
use crate::command::NoExtension;
use crate::current::ExecutorId;
use crate::error::{Error, WaitError, absorb};
use crate::executor::EventExecutor;
use crate::group_builder::EventExecutorGroupBuilder;
use crate::guard::report_to;
use crate::lease::Lease;
use crate::lifecycle::State;
use crate::promise::{Promise, PromiseFuture, SharedFuture, promise_of_end};
use crate::raw::origin::Origin;
use crate::rejected::Rejected;
use crate::report::{Fault, UserCode};
use crate::shared::Shared;
use crate::shutdown::InvalidShutdown;
use crate::timer::MissedTicks;
use crate::timer::periodic::Repeat;
use crate::wake::Urgency;

/// Several executors behind one handle: each submission goes to one of them, chosen by the group's
/// [`Chooser`]; a shutdown goes to all.
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

/// What the handles of a group share. Holds no lease: it may outlive the last user handle.
pub(crate) struct Members<X: Send + 'static> {
    children: Vec<Arc<Shared<X>>>,
    chooser: Box<dyn Chooser>,
    fallback: RoundRobin,
    termination: SharedFuture<()>,
    lease: Mutex<Weak<Lease>>,
}

impl EventExecutorGroup {
    /// Starts to build a group without I/O: for work that would hold an I/O loop up.
    pub fn builder() -> EventExecutorGroupBuilder {
        EventExecutorGroupBuilder::new()
    }
}

impl<X: Send + 'static> EventExecutorGroup<X> {
    /// Makes a group of executors that are there already; at least one.
    pub(crate) fn of(children: Vec<EventExecutor<X>>, chooser: Box<dyn Chooser>) -> Self {
        let shared: Vec<_> = children.iter().map(|child| child.shared().clone()).collect();
        let ending = shared.clone();
        let lease = Arc::new(Lease::new(move || {
            for child in &ending {
                child.shut_down_when_empty();
            }
        }));
        let group_id = ExecutorId::next();
        let (end, termination) = GroupEnd::new(shared.len(), group_id);
        let end = Arc::new(end);
        let members = Arc::new(Members {
            termination,
            children: shared,
            chooser,
            fallback: RoundRobin::default(),
            lease: Mutex::new(Arc::downgrade(&lease)),
        });
        lease.keep(members.clone());
        for (at, child) in children.into_iter().enumerate() {
            let (group, end) = (Arc::downgrade(&members), end.clone());
            let membership = Membership { group, group_id, end, at };
            child.join_group(membership, &lease);
        }
        Self { members, lease: Some(lease) }
    }

    pub(crate) fn from_members(members: Arc<Members<X>>) -> Self {
        let lease = members.lease.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        Self { members, lease }
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

    fn child(&self, at: usize) -> EventExecutor<X> {
        EventExecutor::with_lease(self.members.children[at].clone(), self.lease.clone())
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
        self.members.children.iter().all(|child| child.life.state() >= least)
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
        for child in &self.members.children {
            child.shut_down_gracefully(quiet, timeout)?;
        }
        Ok(self.termination())
    }

    /// Makes all children refuse new tasks from now on; what they accepted still runs.
    pub fn shutdown(&self) -> SharedFuture<()> {
        for child in &self.members.children {
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

impl<X: Send + 'static> Members<X> {
    fn choose(&self, key: Option<u64>) -> usize {
        let load = |child: usize| self.children.get(child).map_or(usize::MAX, |child| child.load());
        let choice = Choice::new(self.children.len(), &load, key);
        let chosen = catch_unwind(AssertUnwindSafe(|| self.chooser.choose(&choice)));
        let message = match chosen {
            Ok(at) if at < self.children.len() => return at,
            Ok(at) => format!("chose child {at} of {}", self.children.len()),
            Err(payload) => absorb(payload),
        };
        self.report_chooser(message);
        self.fallback.choose(&choice)
    }

    #[cold]
    fn report_chooser(&self, message: String) {
        if let Some(child) = self.children.first() {
            let (what, origin) = (UserCode::Chooser, Origin::labelled("chooser"));
            let fault = Fault::Panicked { what, origin, message };
            report_to(&*child.reporter, &child.name, fault);
        }
    }
}

/// What a child knows of its group.
pub(crate) struct Membership<X: Send + 'static> {
    group: Weak<Members<X>>,
    group_id: ExecutorId,
    end: Arc<GroupEnd>,
    at: usize,
}

impl<X: Send + 'static> Clone for Membership<X> {
    fn clone(&self) -> Self {
        let Self { group, group_id, end, at } = self;
        Self { group: group.clone(), group_id: *group_id, end: end.clone(), at: *at }
    }
}

impl<X: Send + 'static> Membership<X> {
    pub(crate) fn group(&self) -> Option<Arc<Members<X>>> {
        self.group.upgrade()
    }

    pub(crate) fn group_id(&self) -> ExecutorId {
        self.group_id
    }

    /// The child has terminated.
    pub(crate) fn child_ended(&self, cause: Option<&Error>) {
        self.end.child_ended(self.at, cause);
    }
}

/// Counts the children that have terminated. Children and group hold it; it holds neither, so it
/// completes whoever is gone first.
struct GroupEnd(Mutex<Ending>);

struct Ending {
    ended: Vec<bool>,
    cause: Option<Error>,
    promise: Option<Promise<()>>,
}

impl GroupEnd {
    fn new(children: usize, group: ExecutorId) -> (Self, SharedFuture<()>) {
        let (promise, termination) = promise_of_end(group);
        let ending = Ending { ended: vec![false; children], cause: None, promise: Some(promise) };
        (Self(Mutex::new(ending)), termination)
    }

    /// Saying it twice of the same child does no harm.
    fn child_ended(&self, at: usize, cause: Option<&Error>) {
        let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ending.ended[at] = true;
        if ending.cause.is_none() {
            ending.cause = cause.cloned();
        }
        if ending.ended.iter().all(|ended| *ended)
            && let Some(promise) = ending.promise.take()
        {
            let outcome = ending.cause.take().map_or(Ok(()), Err);
            drop(ending);
            promise.complete(outcome);
        }
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
        f.debug_list().entries(&self.members.children).finish()
    }
}
