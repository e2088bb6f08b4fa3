//! The builder of executors, and the errors of invalid properties.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::LoopSeed;
use crate::engine::command::NoExtension;
use crate::engine::shared_half::{ExecutorParts, SharedHalf};
use crate::engine::task_loop::TaskLoop;
use crate::executor::EventExecutor;
use crate::executor::attachment::ExecutorAttachment;
use crate::executor::manual::ManualExecutor;
use crate::executor::manual_loop::ManualLoop;
use crate::executor::pooled::ParkedLoop;
use crate::queue::rejection::{Reject, RejectionPolicy};
use crate::report::Reporter;
use crate::report::log_reporter::LogReporter;
use crate::thread::{ThreadFactory, ThreadSupplier};
use crate::wake::park::{TokenPark, Unpark};
use crate::watchdog::Watchdog;

/// The smallest bound of a queue: below it, executors that submit to each other can block each other.
pub const MIN_QUEUE_BOUND: u32 = 16;

/// The largest bound of a queue.
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
    attachment: Option<Arc<dyn ExecutorAttachment>>,
    watchdog: Option<Watchdog>,
}

/// An invalid property of an executor or a group.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The queue bound is out of range.
    #[error("a queue bound of {bound} is not between {MIN_QUEUE_BOUND} and {MAX_QUEUE_BOUND}")]
    QueueBound {
        /// The requested bound.
        bound: u32,
    },
    /// A timer bound of zero, which would refuse every timer.
    #[error("a bound of 0 pending timers refuses every timer; without a bound, leave it out")]
    TimerBound,
    /// The child of a group is not new: it is in a group already, or was given twice.
    #[error("`{executor}` cannot be a child of the group: it is in one already")]
    AlreadyInGroup {
        /// The executor's name.
        executor: String,
    },
    /// The group was not built to grow, or has stopped growing.
    #[error("the group takes no more children")]
    GroupClosed,
    /// A group of zero threads.
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

    /// Sets the name, used in reports and for the default thread's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how many user tasks may be queued; unbounded by default. A bound below [`MIN_QUEUE_BOUND`] (16) or
    /// above [`MAX_QUEUE_BOUND`] is an error of [`build`](Self::build), not rounded.
    ///
    /// Pending timers, listeners, hooks, cancels and the shutdown do not count, and are accepted beyond the
    /// bound.
    pub fn queue_bound(mut self, bound: u32) -> Self {
        self.bound = Some(bound);
        self
    }

    /// Sets how many timers may be pending; unbounded by default. Zero is an error.
    ///
    /// A further timer is [`Rejected`](crate::Rejected) with its closure, for
    /// [`TooManyTimers`](crate::RejectReason::TooManyTimers); the rejection policy is not asked. A timer is
    /// pending until it fires, is cancelled, or the executor terminates; a repeating timer is pending between
    /// its runs too. Timers of a layer above, such as the timeouts and sleeps of an event loop, are system
    /// commands and do not count.
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

    /// Sets the policy for submissions that find the queue full. Default: [`Reject`].
    pub fn rejection(mut self, policy: impl RejectionPolicy + 'static) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// Sets the supplier of the thread. Default: a [`ThreadFactory`] with the executor's name.
    pub fn thread_supplier(mut self, supplier: Arc<dyn ThreadSupplier>) -> Self {
        self.supplier = Some(supplier);
        self
    }

    /// Sets the reporter of faults. Default: the [`LogReporter`].
    pub fn reporter(mut self, reporter: Arc<dyn Reporter>) -> Self {
        self.reporter = reporter;
        self
    }

    /// Refuses every blocking wait on the loop's thread, not only waits for its own promises: for loops on
    /// which others depend, such as I/O loops.
    pub fn never_block(mut self) -> Self {
        self.never_block = true;
        self
    }

    /// Sets the clock of timers. Default: the monotonic clock.
    ///
    /// With a [`VirtualClock`](crate::VirtualClock) timers fire, and the quiet period of a shutdown ends, when
    /// a thread moves the clock there: that wakes the executor's thread, or asks its pool for a turn. A loop of
    /// the caller's own ([`build_loop`](Self::build_loop)) has to wait by the same clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the watchdog that watches the loop from its start to its end, however it is driven. Default: none.
    pub fn watchdog(mut self, watchdog: &Watchdog) -> Self {
        self.watchdog = Some(watchdog.clone());
        self
    }

    /// Attaches a value of the layer above, which [`attachment`](crate::engine::CommandAccess::attachment)
    /// returns.
    pub fn attach(mut self, attachment: Arc<dyn ExecutorAttachment>) -> Self {
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
    /// [`BuildError`] says which property is invalid.
    pub fn build(self) -> Result<EventExecutor, BuildError> {
        let park = TokenPark::new(self.clock.clone());
        let (unpark, idle_limit) = (park.unparker(), self.idle_limit);
        let seed: LoopSeed<NoExtension> =
            Box::new(move || Box::new(TaskLoop::new(park, idle_limit)));
        self.build_loop(unpark, seed)
    }

    /// Builds an executor without I/O and without a thread of its own: each of its turns is a job for its
    /// thread supplier, which should be a shared pool such as a [`ThreadPool`](crate::ThreadPool). An idle executor
    /// holds no thread. A pooled executor has no loop-local values.
    ///
    /// A supplier that drops or refuses a turn ends the executor as if its loop had died.
    ///
    /// # Errors
    /// [`BuildError`] says which property is invalid.
    pub fn build_pooled(self) -> Result<EventExecutor, BuildError> {
        let parked = Arc::new(ParkedLoop::new());
        let seed = Box::new(|| unreachable!("a pooled loop has no LoopWork of its own"));
        self.assemble::<NoExtension>(parked.clone(), seed, Some(parked))
    }

    /// Builds an executor that the calling thread drives, by this clock. The thread supplier is not used.
    ///
    /// # Errors
    /// [`BuildError`] says which property is invalid.
    pub fn build_manual(self, clock: Clock) -> Result<ManualExecutor, BuildError> {
        let park = TokenPark::new(clock.clone());
        let manual_loop = self.clock(clock).build_manual_loop::<NoExtension>(park.unparker())?;
        Ok(ManualExecutor::new_driven(manual_loop, park))
    }

    /// Builds an executor around the caller's own loop, which the calling thread drives turn by turn: for manually
    /// driven event loops. The thread supplier is not used.
    ///
    /// # Errors
    /// The errors of [`build`](Self::build).
    pub fn build_manual_loop<X: Send + 'static>(
        self,
        unpark: Arc<dyn Unpark>,
    ) -> Result<ManualLoop<X>, BuildError> {
        let seed = Box::new(|| unreachable!("a manually driven loop is never started"));
        Ok(ManualLoop::new_driven(self.build_loop::<X>(unpark, seed)?))
    }

    /// Builds an executor around the caller's own loop: for event loops.
    ///
    /// `unpark` ends the blocking call of the loop's [`LoopWork`](crate::engine::LoopWork); `seed` makes that work on
    /// the loop's thread.
    ///
    /// # Errors
    /// The errors of [`build`](Self::build).
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
        parked: Option<Arc<ParkedLoop<X>>>,
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
        Ok(EventExecutor::new(SharedHalf::new(ExecutorParts {
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
            parked,
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
