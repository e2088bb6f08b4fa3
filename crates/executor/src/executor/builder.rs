//! Building an executor.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::LoopSeed;
use crate::engine::command::NoExtension;
use crate::engine::shared_half::{Parts, Shared};
use crate::engine::task_loop::TaskLoop;
use crate::executor::EventExecutor;
use crate::executor::attachment::Attached;
use crate::executor::manual::ManualExecutor;
use crate::executor::manual_loop::ByHand;
use crate::executor::pooled::Rest;
use crate::queue::rejection::{Reject, RejectionPolicy};
use crate::report::Reporter;
use crate::report::log_reporter::LogReporter;
use crate::thread::{ThreadFactory, ThreadSupplier};
use crate::wake::park::{TokenPark, Unpark};
use crate::watchdog::Watchdog;

/// The smallest bound a queue can have: below it, executors that submit to each other lock up.
pub const MIN_QUEUE_BOUND: u32 = 16;

/// The largest bound a queue can have.
pub const MAX_QUEUE_BOUND: u32 = 1 << 30;

/// Gathers the properties of an [`EventExecutor`]; [`build`](Self::build) checks them.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_executor::{BackOff, EventExecutor};
///
/// let executor = EventExecutor::builder()
///     .name("billing")
///     .queue_bound(1024)
///     .rejection(BackOff::new(3, Duration::from_millis(1)))
///     .build()?;
/// assert_eq!(executor.name(), "billing");
/// assert!(EventExecutor::builder().queue_bound(15).build().is_err());
/// # Ok::<(), waterwheel_executor::BuildError>(())
/// ```
#[must_use]
pub struct EventExecutorBuilder {
    name: String,
    bound: Option<u32>,
    timer_bound: Option<usize>,
    policy: Box<dyn RejectionPolicy>,
    supplier: Option<Arc<dyn ThreadSupplier>>,
    reporter: Arc<dyn Reporter>,
    clock: Clock,
    never_block: bool,
    is_global: bool,
    idle_limit: Option<Duration>,
    attachment: Option<Arc<dyn Attached>>,
    watchdog: Option<Watchdog>,
}

/// A property that makes no sense.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The queue's bound is out of range.
    #[error("a queue bound of {bound} is not between {MIN_QUEUE_BOUND} and {MAX_QUEUE_BOUND}")]
    QueueBound {
        /// The bound asked for.
        bound: u32,
    },
    /// No timer would be allowed at all.
    #[error("a bound of 0 pending timers refuses every timer; without a bound, leave it out")]
    TimerBound,
    /// A child of a group must be new: this one is in a group already, or was given twice.
    #[error("`{executor}` cannot be a child of the group: it is in one already")]
    AlreadyInGroup {
        /// The executor's name.
        executor: String,
    },
    /// A child was to be added to a group that does not grow, or does not any more.
    #[error("the group takes no more children")]
    GroupClosed,
    /// A group without threads.
    #[error("a group needs at least one thread")]
    NoThreads,
}

impl EventExecutorBuilder {
    pub(crate) fn new() -> Self {
        Self {
            name: "executor".to_owned(),
            bound: None,
            timer_bound: None,
            policy: Box::new(Reject),
            supplier: None,
            reporter: Arc::new(LogReporter),
            clock: Clock::Monotonic,
            never_block: false,
            is_global: false,
            idle_limit: None,
            attachment: None,
            watchdog: None,
        }
    }

    /// The name, for reports and for the default thread's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// At most this many user tasks may wait; without it there is no bound. Below [`MIN_QUEUE_BOUND`] (16)
    /// or above [`MAX_QUEUE_BOUND`] it is an error of [`build`](Self::build), not rounded.
    ///
    /// Timers that wait for their time, listeners, hooks, cancels and the shutdown do not count, and are let
    /// in past it.
    pub fn queue_bound(mut self, bound: u32) -> Self {
        self.bound = Some(bound);
        self
    }

    /// At most this many timers may be pending; without it there is no bound. Zero is an error.
    ///
    /// One more is [`Rejected`](crate::Rejected) with its closure, for
    /// [`TooManyTimers`](crate::RejectReason::TooManyTimers); the rejection policy is not asked. A timer is
    /// pending until it fires, is cancelled, or the executor ends; one that repeats is pending between its
    /// runs too. Timers of a layer above, such as the time-outs and sleeps of an event loop, are system
    /// commands: they do not count.
    ///
    /// ```
    /// use std::time::Duration;
    /// use waterwheel_executor::{EventExecutor, RejectReason};
    ///
    /// let executor = EventExecutor::builder().timer_bound(1).build()?;
    /// let hour = Duration::from_secs(3600);
    /// let first = executor.schedule(hour, || ())?;
    /// let second = executor.schedule(hour, || ()).unwrap_err();
    /// assert!(matches!(second.reason(), RejectReason::TooManyTimers { bound: 1 }));
    /// first.cancel();
    /// assert!(executor.schedule(hour, second.into_task()).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timer_bound(mut self, bound: usize) -> Self {
        self.timer_bound = Some(bound);
        self
    }

    /// What happens to a submission that finds the queue full. Default: [`Reject`].
    pub fn rejection(mut self, policy: impl RejectionPolicy + 'static) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// Where the thread comes from. Default: a [`ThreadFactory`] with the executor's name.
    pub fn thread_supplier(mut self, supplier: Arc<dyn ThreadSupplier>) -> Self {
        self.supplier = Some(supplier);
        self
    }

    /// Who is told of faults. Default: the log.
    pub fn reporter(mut self, reporter: Arc<dyn Reporter>) -> Self {
        self.reporter = reporter;
        self
    }

    /// Refuses every blocking wait on the loop's thread, not only those for its own promises: for
    /// loops on which others depend, such as I/O loops.
    pub fn never_block(mut self) -> Self {
        self.never_block = true;
        self
    }

    /// The clock that timers go by. Default: the monotonic one.
    ///
    /// With a [`VirtualClock`](crate::VirtualClock) timers fire, and the quiet period of a shutdown ends, when
    /// somebody moves the clock there: that wakes the executor's thread, or asks its pool for a turn. A loop
    /// of the caller's own ([`build_loop`](Self::build_loop)) has to wait by the same clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Watched by this one from its start to its end, however it is driven. Default: by none.
    pub fn watchdog(mut self, watchdog: &Watchdog) -> Self {
        self.watchdog = Some(watchdog.clone());
        self
    }

    /// Attaches something of the layer above, for
    /// [`attachment`](crate::engine::CommandAccess::attachment) to find.
    pub fn attach(mut self, attachment: Arc<dyn Attached>) -> Self {
        self.attachment = Some(attachment);
        self
    }

    pub(crate) fn global(mut self) -> Self {
        self.is_global = true;
        self
    }

    pub(crate) fn idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = Some(limit);
        self
    }

    /// Builds an executor without I/O. Its thread starts with the first submission.
    ///
    /// # Errors
    /// [`BuildError`] names the property that makes no sense.
    pub fn build(self) -> Result<EventExecutor, BuildError> {
        let park = TokenPark::new(self.clock.clone());
        let (unpark, idle_limit) = (park.unparker(), self.idle_limit);
        let seed: LoopSeed<NoExtension> =
            Box::new(move || Box::new(TaskLoop::new(park, idle_limit)));
        self.build_loop(unpark, seed)
    }

    /// Builds an executor without I/O and without a thread: each of its turns is a job for its
    /// thread supplier, which should be a shared pool such as a [`ThreadPool`](crate::ThreadPool). While
    /// there is nothing to do it holds no thread. Loop-local values it has none.
    ///
    /// A supplier that drops a turn unrun, or refuses it, ends the executor as if its loop had died.
    ///
    /// # Errors
    /// [`BuildError`] names the property that makes no sense.
    pub fn build_pooled(self) -> Result<EventExecutor, BuildError> {
        let rest = Arc::new(Rest::new());
        let seed = Box::new(|| unreachable!("it turns in a pool, and has no work of its own"));
        self.assemble::<NoExtension>(rest.clone(), seed, Some(rest))
    }

    /// Builds an executor that the calling thread drives itself, by this clock. The thread supplier
    /// is not asked.
    ///
    /// # Errors
    /// [`BuildError`] names the property that makes no sense.
    pub fn build_manual(self, clock: Clock) -> Result<ManualExecutor, BuildError> {
        let park = TokenPark::new(clock.clone());
        let hand = self.clock(clock).build_by_hand::<NoExtension>(park.unparker())?;
        Ok(ManualExecutor::drive(hand, park))
    }

    /// Builds an executor around a loop of the caller's own, whose turns the calling thread makes:
    /// the seam for event loops that are driven by hand. The thread supplier is not asked.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub fn build_by_hand<X: Send + 'static>(
        self,
        unpark: Arc<dyn Unpark>,
    ) -> Result<ByHand<X>, BuildError> {
        let seed = Box::new(|| unreachable!("driven by hand, never started"));
        Ok(ByHand::drive(self.build_loop::<X>(unpark, seed)?))
    }

    /// Builds an executor around a loop of the caller's own: the seam for event loops.
    ///
    /// `unpark` ends whatever the loop's [`Work`](crate::engine::Work) blocks in; `seed` makes that
    /// work on the loop's thread.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub fn build_loop<X: Send + 'static>(
        self,
        unpark: Arc<dyn Unpark>,
        seed: LoopSeed<X>,
    ) -> Result<EventExecutor<X>, BuildError> {
        self.assemble(unpark, seed, None)
    }

    fn assemble<X: Send + 'static>(
        self,
        unpark: Arc<dyn Unpark>,
        seed: LoopSeed<X>,
        rest: Option<Arc<Rest<X>>>,
    ) -> Result<EventExecutor<X>, BuildError> {
        if let Some(bound) = self.bound
            && !(MIN_QUEUE_BOUND..=MAX_QUEUE_BOUND).contains(&bound)
        {
            return Err(BuildError::QueueBound { bound });
        }
        if self.timer_bound == Some(0) {
            return Err(BuildError::TimerBound);
        }
        let supplier =
            self.supplier.unwrap_or_else(|| Arc::new(ThreadFactory::new(self.name.clone())));
        Ok(EventExecutor::new(Shared::new(Parts {
            name: self.name,
            bound: self.bound,
            timer_bound: self.timer_bound,
            policy: self.policy,
            supplier,
            reporter: self.reporter,
            clock: self.clock,
            never_block: self.never_block,
            is_global: self.is_global,
            watchdog: self.watchdog,
            unpark,
            seed,
            attachment: self.attachment,
            rest,
        })))
    }
}

impl fmt::Debug for EventExecutorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventExecutorBuilder")
            .field("name", &self.name)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}
