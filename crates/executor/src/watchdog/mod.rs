//! The watchdog: reports work that holds a loop beyond a limit, while the work still runs (O02).
//!
//! ```text
//!   loop ──► activity: what it does, a few plain stores per task
//!              ▲
//!              │ looks at regular intervals                        ┌──► your callback,
//!   one thread for all loops ──► the same piece of work for too long ──► or the loop's reporter
//! ```
//!
//! - [`activity_cell`]: what a loop is doing, readable from any thread. [`call_site`]: names of handlers.
//! - [`loop_status`]: activity, thread and slow work of a loop, shared with its observers.
//! - [`slow_work`]: the reports.
//! - `hold_tracker`: how long the current work has held a loop, and when to report it. A value: time is an
//!   argument.
//! - `thread`: the watched loops, and the thread that looks at them.
//!
//! Loops read no clock for this. The time of a piece of work is counted from when the watchdog first saw it, so
//! it has run for a little longer: by at most one interval between two looks.

pub(crate) mod activity_cell;
pub(crate) mod call_site;
mod hold_tracker;
pub(crate) mod loop_status;
mod slow_work;
mod thread;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::slow_work::{Activity, SlowWork};

use self::thread::WatchdogThread;
use crate::report::Reporter;
use crate::watchdog::loop_status::LoopStatus;

/// The default limit on how long a piece of work may hold a loop.
pub const DEFAULT_SLOW_LIMIT: Duration = Duration::from_millis(100);

/// The shortest limit. Below it a watchdog reports the kernel's thread scheduling rather than slow work.
pub const MIN_SLOW_LIMIT: Duration = Duration::from_millis(1);

/// How often the watchdog looks within one limit by default: with 4, a report is late by at most a quarter of the limit.
const LOOKS_PER_LIMIT: u32 = 4;

/// Watches loops, and reports work that holds one of them for too long, while the work still runs.
///
/// The builders of executors, groups and event loops take a watchdog; one is enough for all of them. It reports
/// a piece of work when the limit has passed, again whenever the time has doubled, and once more when the work
/// has ended. Waiting is not work.
///
/// The watchdog's thread runs while one of its loops runs. The watchdog keeps no loop alive; loops keep the watchdog
/// alive.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use waterwheel_executor::{EventExecutorGroup, Watchdog};
///
/// let (sender, reports) = mpsc::channel();
/// let watchdog = Watchdog::builder()
///     .limit(Duration::from_millis(10))
///     .on_slow(move |work| drop(sender.send(work.to_string())))
///     .build()?;
/// let group = EventExecutorGroup::builder().threads(2).name("workers").watchdog(&watchdog).build()?;
///
/// // Holds its executor until the watchdog has reported it.
/// let stuck = group.next().labelled("sort everything").submit(move || reports.recv())?;
/// let report = stuck.join()??;
/// assert!(report.starts_with("the task from sort everything has held the loop for"), "{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Watchdog {
    thread: Arc<WatchdogThread>,
}

/// Gathers the properties of a [`Watchdog`]; [`build`](Self::build) checks them.
#[must_use]
pub struct WatchdogBuilder {
    limit: Duration,
    look_every: Option<Duration>,
    on_slow: Option<OnSlow>,
}

type OnSlow = Box<dyn Fn(&SlowWork) + Send + Sync>;

/// An invalid property of a watchdog.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidWatchdog {
    /// The limit is too short.
    #[error("a watchdog limit of {limit:?} is below the minimum of {MIN_SLOW_LIMIT:?}")]
    Limit {
        /// The requested limit.
        limit: Duration,
    },
    /// The interval between two looks is zero, or longer than the limit.
    #[error(
        "an interval of {look_every:?} between two looks is invalid: it must be above zero and at most \
         the limit of {limit:?}"
    )]
    LookEvery {
        /// The requested interval.
        look_every: Duration,
        /// The limit.
        limit: Duration,
    },
}

impl Watchdog {
    /// Creates a builder.
    pub fn builder() -> WatchdogBuilder {
        WatchdogBuilder { limit: DEFAULT_SLOW_LIMIT, look_every: None, on_slow: None }
    }

    /// Returns how long a piece of work may hold a loop.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.thread.limit
    }

    /// Returns how many loops are watched: those that have started and not ended.
    #[must_use]
    pub fn watched_loops(&self) -> usize {
        self.thread.watched_loops()
    }

    /// Watches a loop that has started.
    pub(crate) fn watch(
        &self,
        name: &Arc<str>,
        reporter: &Arc<dyn Reporter>,
        status: &Arc<LoopStatus>,
    ) {
        self.thread.add_loop(name, reporter, status);
    }

    /// Makes the thread look now: a loop has ended, and it may have been the last.
    pub(crate) fn check_now(&self) {
        self.thread.check_now();
    }
}

impl WatchdogBuilder {
    /// Sets how long a piece of work may hold a loop; at least [`MIN_SLOW_LIMIT`]. Default:
    /// [`DEFAULT_SLOW_LIMIT`].
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets how often the watchdog looks at its loops; not longer than the limit. Slow work is reported up to
    /// this much later than the limit, and each look costs a wake-up of the watchdog's own thread. Default: a
    /// quarter of the limit.
    pub fn look_every(mut self, interval: Duration) -> Self {
        self.look_every = Some(interval);
        self
    }

    /// Sets the callback that receives slow work. Default: the [`Reporter`] of the loop, as a
    /// [`Fault::Slow`](crate::Fault::Slow).
    ///
    /// Called on the watchdog's thread: while it runs, nothing is watched. A panic is reported, and the
    /// watchdog continues. An executor handle that the callback holds keeps that executor alive.
    pub fn on_slow(mut self, callback: impl Fn(&SlowWork) + Send + Sync + 'static) -> Self {
        self.on_slow = Some(Box::new(callback));
        self
    }

    /// Builds the watchdog. Its thread starts with the first of its loops.
    ///
    /// # Errors
    /// [`InvalidWatchdog`] says which property is invalid.
    pub fn build(self) -> Result<Watchdog, InvalidWatchdog> {
        let Self { limit, look_every, on_slow } = self;
        if limit < MIN_SLOW_LIMIT {
            return Err(InvalidWatchdog::Limit { limit });
        }
        let look_every = look_every.unwrap_or(limit / LOOKS_PER_LIMIT);
        if look_every.is_zero() || look_every > limit {
            return Err(InvalidWatchdog::LookEvery { look_every, limit });
        }
        Ok(Watchdog { thread: Arc::new(WatchdogThread::new(limit, look_every, on_slow)) })
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog")
            .field("limit", &self.limit())
            .field("watched", &self.watched_loops())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WatchdogBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchdogBuilder")
            .field("limit", &self.limit)
            .field("look_every", &self.look_every)
            .finish_non_exhaustive()
    }
}
