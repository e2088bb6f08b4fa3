//! Building event loops.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use waterwheel_executor::engine::{CommandAccess, LoopSeed};
use waterwheel_executor::{
    BuildError, Chooser, EventExecutor, EventExecutorBuilder, EventExecutorGroup,
    EventExecutorGroupBuilder, RejectionPolicy, Reporter, ThreadSupplier, TokenPark, Watchdog,
};

use crate::driver::{Driver, OpenDriver};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::handle::Attachment;
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::loop_pool::LoopPool;
use crate::event_loop::manual::ManualEventLoop;
use crate::event_loop::turn::LoopRunner;
use crate::event_loop::turn::select_strategy::SelectStrategy;
use crate::event_loop::turn::spin_guard::DEFAULT_REBUILD_THRESHOLD;
use crate::event_loop::turn::task_budget::TaskBudget;
use crate::event_loop::waker::LoopWaker;
use crate::metrics::Counters;

/// Gathers the properties of an [`EventLoopGroup`]; [`build`](Self::build) checks them and opens the
/// drivers.
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
    /// A loop for each channel.
    per_channel: bool,
    max_channels: Option<usize>,
}

/// What every loop of a group is built with.
#[derive(Clone)]
pub(crate) struct LoopOptions {
    pub(crate) driver: Arc<dyn OpenDriver>,
    pub(crate) budget: TaskBudget,
    /// `None`: the usual one, which need not be asked.
    pub(crate) strategy: Option<Arc<dyn SelectStrategy>>,
    pub(crate) rebuild_after: u32,
    pub(crate) spin: Duration,
    /// Of a group with a loop for each channel.
    pub(crate) loop_pool: Option<Weak<LoopPool>>,
}

/// Why a group of event loops could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopBuildError {
    /// A property of the executors makes no sense.
    #[error(transparent)]
    Executor(#[from] BuildError),
    /// The I/O ratio is out of range.
    #[error("an I/O ratio of {ratio} is not between 1 and 100")]
    IoRatio {
        /// The ratio asked for.
        ratio: u8,
    },
    /// No channel would be allowed at all.
    #[error("a group for at most 0 channels is of no use; without a limit, leave it out")]
    NoChannels,
    /// Only a group with a loop for each channel has a limit.
    #[error("at most {max} channels: only a group with a loop for each channel has such a limit")]
    NotPerChannel {
        /// The limit asked for.
        max: usize,
    },
    /// The driver could not be opened.
    #[error("the driver of an event loop could not be opened: {0}")]
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

    /// Of a group with a loop for each channel.
    pub(crate) fn per_channel(driver: impl OpenDriver + 'static) -> Self {
        Self { per_channel: true, ..Self::new(driver).threads(1) }
    }

    /// How many loops; zero is an error. Default: two for each core. In a group with a loop for each
    /// channel: how many are there from the start, one by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.executors = self.executors.threads(threads);
        self
    }

    /// The name: loops are `name-0`, `name-1`, …, their threads `name-pool-n`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.executors = self.executors.name(name);
        self
    }

    /// Where the threads come from. Default: a
    /// [`ThreadFactory`](waterwheel_executor::ThreadFactory) with the group's name. For threads
    /// pinned to cores give one with [`pin_to`](waterwheel_executor::ThreadFactory::pin_to).
    pub fn thread_supplier(mut self, supplier: Arc<dyn ThreadSupplier>) -> Self {
        self.executors = self.executors.thread_supplier(supplier);
        self
    }

    /// Who picks the loop for the next piece of work. Default: round robin.
    pub fn chooser(mut self, chooser: impl Chooser + 'static) -> Self {
        self.executors = self.executors.chooser(chooser);
        self
    }

    /// At most this many user tasks may wait at each loop: at least 16, fewer is an error
    /// ([`MIN_QUEUE_BOUND`](waterwheel_executor::MIN_QUEUE_BOUND)).
    pub fn queue_bound(mut self, bound: u32) -> Self {
        self.executors = self.executors.queue_bound(bound);
        self
    }

    /// At most this many timers of the user's may be pending at each loop; one more is rejected with its
    /// closure. Zero is an error. Time-outs of channels, timers of handlers and sleeps of futures do not
    /// count. Default: no bound.
    pub fn timer_bound(mut self, bound: usize) -> Self {
        self.executors = self.executors.timer_bound(bound);
        self
    }

    /// What happens to a submission that finds the queue full. Default: it is rejected.
    pub fn rejection(mut self, policy: impl RejectionPolicy + 'static) -> Self {
        self.executors = self.executors.rejection(policy);
        self
    }

    /// Who is told of faults. Default: the log.
    pub fn reporter(mut self, reporter: Arc<dyn Reporter>) -> Self {
        self.executors = self.executors.reporter(reporter);
        self
    }

    /// All loops are watched by this one: it names the task, the future, the callback or the handler
    /// that holds one of them for too long, while it still does. Default: by none.
    ///
    /// ```
    /// use waterwheel_channel::EventLoopGroup;
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_executor::Watchdog;
    ///
    /// let watchdog = Watchdog::builder().build()?; // Tells the reporter of the loop.
    /// let group = EventLoopGroup::builder(TaskOnly).watchdog(&watchdog).build()?;
    /// assert_eq!(group.next().metrics().slow_works, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watchdog(mut self, watchdog: &Watchdog) -> Self {
        self.executors = self.executors.watchdog(watchdog);
        self
    }

    /// The share of a loop's time that belongs to I/O, in percent, from 1 to 100: after events that
    /// took a time `t`, tasks run for up to `t × (100 − ratio) / ratio`; without events one batch of
    /// them runs. At 100 the tasks that are queued all run. Default: 50.
    pub fn io_ratio(mut self, ratio: u8) -> Self {
        self.options.budget.io_ratio = ratio;
        self
    }

    /// No task phase is longer than this, whatever the ratio. Default: no such limit.
    pub fn task_quantum(mut self, quantum: Duration) -> Self {
        self.options.budget.quantum = Some(quantum);
        self
    }

    /// How a turn begins. Default: [`WaitStrategy`](crate::WaitStrategy).
    pub fn strategy(mut self, strategy: impl SelectStrategy + 'static) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
        self
    }

    /// After so many waits in a row that returned early with nothing to do, the selector is rebuilt;
    /// below three it never is. A wait that was of use makes up for sixteen of them. Default: 512.
    pub fn rebuild_after(mut self, premature_returns: u32) -> Self {
        self.options.rebuild_after = premature_returns;
        self
    }

    /// Before it sleeps a loop keeps looking for work this long: submissions then reach it without a
    /// system call, at the price of a busy core. Default: not at all.
    pub fn spin_before_sleep(mut self, time: Duration) -> Self {
        self.options.spin = time;
        self
    }

    /// A group with a loop for each channel has so many channels at most, those that accept connections
    /// included: [`TooManyChannels`](crate::TooManyChannels) is the error beyond, and an accepted connection
    /// is closed. Zero is an error. Default: no limit.
    pub fn max_channels(mut self, max: usize) -> Self {
        self.max_channels = Some(max);
        self
    }

    /// Builds the group, and opens a driver for each loop. Threads start when they are first used.
    ///
    /// # Errors
    /// [`LoopBuildError`] names what makes no sense, or what could not be had: then the loops built
    /// before have ended.
    pub fn build(self) -> Result<EventLoopGroup, LoopBuildError> {
        let options = self.options.checked()?;
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
        loop_pool.open(group.children());
        Ok(group)
    }

    /// Builds one loop that the calling thread drives itself, turn by turn. The number of threads,
    /// their supplier and the chooser do not matter.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub fn build_manual(self) -> Result<ManualEventLoop, LoopBuildError> {
        let options = self.options.checked()?;
        options.build_manual(self.executors.into_single())
    }
}

impl LoopOptions {
    fn checked(self) -> Result<Self, LoopBuildError> {
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
            let own =
                EventExecutor::current_of_kind().expect("a loop's seed is sown on its thread");
            let local = LocalLoop::new(
                parts.driver,
                own.sender(),
                parts.counters,
                options.loop_pool.clone(),
            );
            let here = local.enter();
            Box::new(LoopRunner::new(local, &options, (parts.pause, parts.waker), Some(here)))
        });
        Ok(builder.build_loop(waker, seed)?)
    }

    fn build_manual(
        &self,
        builder: EventExecutorBuilder,
    ) -> Result<ManualEventLoop, LoopBuildError> {
        let (parts, builder) = self.open(builder)?;
        let hand = builder.build_manual_loop(parts.waker.clone())?;
        let local = LocalLoop::new(parts.driver, hand.executor().sender(), parts.counters, None);
        let runner = LoopRunner::new(local.clone(), self, (parts.pause, parts.waker), None);
        Ok(ManualEventLoop::new(hand, local, runner))
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
        let counters = Arc::new(Counters::new());
        let attachment = Attachment {
            driver_name: driver.name(),
            counters: counters.clone(),
            drained: OnceLock::new(),
        };
        let builder = builder.never_block().clock(clock).attach(Arc::new(attachment));
        Ok((LoopParts { driver, pause, waker, counters }, builder))
    }
}

/// What a loop is made of, on its way to the loop's thread.
struct LoopParts {
    driver: Box<dyn Driver>,
    /// Slept on while the driver is left alone.
    pause: TokenPark,
    waker: Arc<LoopWaker>,
    counters: Arc<Counters>,
}

impl fmt::Debug for EventLoopGroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoopGroupBuilder")
            .field("executors", &self.executors)
            .finish_non_exhaustive()
    }
}
