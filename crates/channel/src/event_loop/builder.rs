//! The builder of event loop groups and of single loops.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use waterwheel_executor::engine::{CommandAccess, LoopSeed};
use waterwheel_executor::{
    BuildError, Chooser, EventExecutor, EventExecutorBuilder, EventExecutorGroup,
    EventExecutorGroupBuilder, RejectionPolicy, Reporter, ThreadSupplier, TokenPark, Watchdog,
};

use crate::base::metrics::LoopCounters;
use crate::driver::{Driver, OpenDriver};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::handle::LoopAttachment;
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::loop_pool::LoopPool;
use crate::event_loop::manual::ManualEventLoop;
use crate::event_loop::turn::LoopRunner;
use crate::event_loop::turn::select_strategy::SelectStrategy;
use crate::event_loop::turn::spin_guard::DEFAULT_REBUILD_THRESHOLD;
use crate::event_loop::turn::task_budget::TaskBudget;
use crate::event_loop::waker::LoopWaker;

/// Collects the properties of an [`EventLoopGroup`]; [`build`](Self::build) checks them and opens the drivers.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{EventLoopGroup, LoopBuildError};
///
/// let group = EventLoopGroup::builder(TaskOnly)
///     .threads(2)
///     .name("io")
///     .io_ratio(70)
///     .task_quantum(Duration::from_millis(1))
///     .spin_before_sleep(Duration::from_micros(20))
///     .build()?;
/// assert_eq!(group.next().driver_name(), "task-only");
///
/// let nonsense = EventLoopGroup::builder(TaskOnly).io_ratio(0).build();
/// assert!(matches!(nonsense, Err(LoopBuildError::IoRatio { ratio: 0 })));
/// # Ok::<(), LoopBuildError>(())
/// ```
#[must_use]
pub struct EventLoopGroupBuilder {
    executors: EventExecutorGroupBuilder,
    options: LoopOptions,
    /// True for a group with one loop for each channel.
    per_channel: bool,
    max_channels: Option<usize>,
}

/// The options that every loop of a group is built with.
#[derive(Clone)]
pub(crate) struct LoopOptions {
    pub(crate) driver: Arc<dyn OpenDriver>,
    pub(crate) budget: TaskBudget,
    /// `None` means [`WaitStrategy`](crate::WaitStrategy), without a call per turn.
    pub(crate) strategy: Option<Arc<dyn SelectStrategy>>,
    pub(crate) rebuild_after: u32,
    pub(crate) spin: Duration,
    /// The pool of a group with one loop for each channel; `None` in other groups.
    pub(crate) loop_pool: Option<Weak<LoopPool>>,
}

/// The reason why a group of event loops could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopBuildError {
    /// A property of the executors is invalid.
    #[error(transparent)]
    Executor(#[from] BuildError),
    /// The I/O ratio is out of range.
    #[error("the I/O ratio is {ratio}; it must be between 1 and 100")]
    IoRatio {
        /// The ratio that was set.
        ratio: u8,
    },
    /// `max_channels(0)` would allow no channel.
    #[error("max_channels(0) allows no channel; leave it out for no limit")]
    NoChannels,
    /// `max_channels` was set for a group without one loop for each channel.
    #[error("max_channels({max}) needs a group built with EventLoopGroup::per_channel")]
    NotPerChannel {
        /// The limit that was set.
        max: usize,
    },
    /// The driver could not be opened.
    #[error("failed to open the driver of an event loop: {0}")]
    Driver(#[source] io::Error),
}

impl EventLoopGroupBuilder {
    pub(crate) fn new(driver: impl OpenDriver + 'static) -> Self {
        let options = LoopOptions {
            driver: Arc::new(driver),
            budget: TaskBudget::default(),
            strategy: None,
            rebuild_after: DEFAULT_REBUILD_THRESHOLD,
            spin: Duration::ZERO,
            loop_pool: None,
        };
        let executors = EventExecutorGroup::builder().name("event-loop");
        Self { executors, options, per_channel: false, max_channels: None }
    }

    /// Creates the builder of a group with one loop for each channel.
    pub(crate) fn per_channel(driver: impl OpenDriver + 'static) -> Self {
        Self { per_channel: true, ..Self::new(driver).threads(1) }
    }

    /// Sets the number of loops; zero is an error. The default is two for each core. In a group with one loop for
    /// each channel, this is the number of loops to begin with, by default one.
    pub fn threads(mut self, threads: usize) -> Self {
        self.executors = self.executors.threads(threads);
        self
    }

    /// Sets the name: loops are called `name-0`, `name-1`, …, their threads `name-pool-n`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.executors = self.executors.name(name);
        self
    }

    /// Sets the source of threads. The default is a [`ThreadFactory`](waterwheel_executor::ThreadFactory) with the
    /// group's name. For threads pinned to cores, pass one with
    /// [`pin_to`](waterwheel_executor::ThreadFactory::pin_to).
    pub fn thread_supplier(mut self, supplier: Arc<dyn ThreadSupplier>) -> Self {
        self.executors = self.executors.thread_supplier(supplier);
        self
    }

    /// Sets the chooser, which picks the loop of each task that is submitted to the group and of each channel that
    /// is registered with it: a client's channel, a server, or an accepted connection of a server that has the
    /// group as its workers. The default is round robin. For long-lived connections use
    /// [`LeastLoaded`](waterwheel_executor::LeastLoaded).
    pub fn chooser(mut self, chooser: impl Chooser + 'static) -> Self {
        self.executors = self.executors.chooser(chooser);
        self
    }

    /// Limits the number of user tasks queued at each loop. A bound below 16
    /// ([`MIN_QUEUE_BOUND`](waterwheel_executor::MIN_QUEUE_BOUND)) is an error.
    pub fn queue_bound(mut self, bound: u32) -> Self {
        self.executors = self.executors.queue_bound(bound);
        self
    }

    /// Limits the number of pending user timers at each loop; a further timer is rejected with its closure. Zero is an
    /// error. Timeouts of channels, timers of handlers and sleeps of futures do not count. The default is no limit.
    pub fn timer_bound(mut self, bound: usize) -> Self {
        self.executors = self.executors.timer_bound(bound);
        self
    }

    /// Sets the policy for submissions to a full queue. The default is to reject them.
    pub fn rejection(mut self, policy: impl RejectionPolicy + 'static) -> Self {
        self.executors = self.executors.rejection(policy);
        self
    }

    /// Sets the reporter, which receives faults. The default is the log.
    pub fn reporter(mut self, reporter: Arc<dyn Reporter>) -> Self {
        self.executors = self.executors.reporter(reporter);
        self
    }

    /// Sets the watchdog of all loops: it reports the task, future, callback or handler that occupies a loop for
    /// too long, while it still runs. The default is no watchdog.
    ///
    /// ```
    /// use waterwheel_channel::EventLoopGroup;
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_executor::Watchdog;
    ///
    /// let watchdog = Watchdog::builder().build()?; // Reports to the reporter of the loop.
    /// let group = EventLoopGroup::builder(TaskOnly).watchdog(&watchdog).build()?;
    /// assert_eq!(group.next().metrics().slow_works, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watchdog(mut self, watchdog: &Watchdog) -> Self {
        self.executors = self.executors.watchdog(watchdog);
        self
    }

    /// Sets the share of a loop's time for I/O, in percent, from 1 to 100. After events that took a time `t`, tasks
    /// run for up to `t × (100 − ratio) / ratio`; without events, one batch of tasks runs. At 100, all queued tasks
    /// run. The default is 50.
    pub fn io_ratio(mut self, ratio: u8) -> Self {
        self.options.budget.io_ratio = ratio;
        self
    }

    /// Limits the length of every task phase, whatever the ratio. The default is no limit.
    pub fn task_quantum(mut self, quantum: Duration) -> Self {
        self.options.budget.quantum = Some(quantum);
        self
    }

    /// Sets the strategy that chooses how a turn begins. The default is [`WaitStrategy`](crate::WaitStrategy).
    pub fn strategy(mut self, strategy: impl SelectStrategy + 'static) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets the number of waits in a row that may return early with nothing to do before the selector is rebuilt. A
    /// number below three disables the rebuild. Each useful wait forgives sixteen early returns. The default is 512.
    pub fn rebuild_after(mut self, premature_returns: u32) -> Self {
        self.options.rebuild_after = premature_returns;
        self
    }

    /// Sets how long a loop polls for work before it sleeps: submissions during that time reach it without a system
    /// call, at the price of a busy core. The default is zero.
    pub fn spin_before_sleep(mut self, time: Duration) -> Self {
        self.options.spin = time;
        self
    }

    /// Limits the number of channels in a group with one loop for each channel, listeners included. Beyond the limit,
    /// registrations fail with [`TooManyChannels`](crate::TooManyChannels), and accepted connections are closed.
    /// Zero is an error. The default is no limit.
    pub fn max_channels(mut self, max: usize) -> Self {
        self.max_channels = Some(max);
        self
    }

    /// Builds the group, and opens a driver for each loop. Threads start when they are first used.
    ///
    /// # Errors
    /// [`LoopBuildError`] names the invalid property, or the driver's error; loops that were already built are ended.
    pub fn build(self) -> Result<EventLoopGroup, LoopBuildError> {
        let options = self.options.validated()?;
        let loop_pool = match (self.per_channel, self.max_channels) {
            (_, Some(0)) => return Err(LoopBuildError::NoChannels),
            (false, Some(max)) => return Err(LoopBuildError::NotPerChannel { max }),
            (false, None) => {
                let group = self.executors.build_with(|builder| options.build(builder))?;
                return Ok(EventLoopGroup::new(group));
            }
            (true, max) => LoopPool::new(options, max),
        };
        let executors = self.executors.growing().attach(loop_pool.clone());
        let group = executors.build_with(|builder| loop_pool.options().build(builder))?;
        let group = EventLoopGroup::new(group);
        loop_pool.add_idle(group.children());
        Ok(group)
    }

    /// Builds one loop that the calling thread drives turn by turn. The number of threads, the thread supplier and
    /// the chooser are ignored.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub fn build_manual(self) -> Result<ManualEventLoop, LoopBuildError> {
        let options = self.options.validated()?;
        options.build_manual(self.executors.into_single())
    }
}

impl LoopOptions {
    fn validated(self) -> Result<Self, LoopBuildError> {
        match self.budget.io_ratio {
            1..=100 => Ok(self),
            ratio => Err(LoopBuildError::IoRatio { ratio }),
        }
    }

    pub(crate) fn build(
        &self,
        builder: EventExecutorBuilder,
    ) -> Result<EventExecutor<LoopCommand>, LoopBuildError> {
        let (parts, builder) = self.open(builder)?;
        let (waker, options) = (parts.waker.clone(), self.clone());
        let seed: LoopSeed<LoopCommand> = Box::new(move || {
            let own = EventExecutor::current_of_kind()
                .expect("a loop is created on its executor's thread");
            let local = LocalLoop::new(
                parts.driver,
                own.sender(),
                parts.counters,
                options.loop_pool.clone(),
            );
            let here = local.make_current();
            Box::new(LoopRunner::new(local, &options, (parts.pause, parts.waker), Some(here)))
        });
        Ok(builder.build_loop(waker, seed)?)
    }

    fn build_manual(
        &self,
        builder: EventExecutorBuilder,
    ) -> Result<ManualEventLoop, LoopBuildError> {
        let (parts, builder) = self.open(builder)?;
        let executor = builder.build_manual_loop(parts.waker.clone())?;
        let local =
            LocalLoop::new(parts.driver, executor.executor().sender(), parts.counters, None);
        let runner = LoopRunner::new(local.clone(), self, (parts.pause, parts.waker), None);
        Ok(ManualEventLoop::new(executor, local, runner))
    }

    /// Opens a driver, and prepares the executor for it.
    fn open(
        &self,
        builder: EventExecutorBuilder,
    ) -> Result<(LoopParts, EventExecutorBuilder), LoopBuildError> {
        let driver = self.driver.open().map_err(LoopBuildError::Driver)?;
        let clock = driver.clock();
        let pause = TokenPark::new(clock.clone());
        let waker = Arc::new(LoopWaker::new(driver.waker(), pause.unparker()));
        let counters = Arc::new(LoopCounters::new());
        let attachment = LoopAttachment {
            driver_name: driver.name(),
            counters: counters.clone(),
            drain_outcome: OnceLock::new(),
        };
        let builder = builder.never_block().clock(clock).attach(Arc::new(attachment));
        Ok((LoopParts { driver, pause, waker, counters }, builder))
    }
}

/// The parts of a loop, before they move to the loop's thread.
struct LoopParts {
    driver: Box<dyn Driver>,
    /// The park token on which the loop sleeps while its driver is paused after a failure.
    pause: TokenPark,
    waker: Arc<LoopWaker>,
    counters: Arc<LoopCounters>,
}

impl fmt::Debug for EventLoopGroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoopGroupBuilder")
            .field("executors", &self.executors)
            .finish_non_exhaustive()
    }
}
