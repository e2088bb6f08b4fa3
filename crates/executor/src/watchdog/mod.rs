//! The watchdog: names what holds a loop beyond a limit, while it still does (O02).
//!
//! ```text
//!   loop ──► pulse: what it does, a few plain stores per task
//!              ▲
//!              │ looks every now and then                          ┌──► your callback,
//!   one thread for all loops ──► the same piece of work for too long ──► or the loop's reporter
//! ```
//!
//! - [`slow_work`]: what is told.
//! - `watch`: what was seen of one loop, and what follows from it. A value: time is an argument.
//! - `thread`: the loops, and the thread that looks at them.
//!
//! Loops read no clock for it. How long something runs is counted from when the watchdog first saw it,
//! so it has run for a little longer: by one interval between two looks at the most.

pub(crate) mod activity_cell;
pub(crate) mod call_site;
pub(crate) mod loop_status;
mod slow_work;
mod thread;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::slow_work::{Activity, SlowWork};

use self::thread::Kennel;
use crate::report::Reporter;
use crate::watchdog::loop_status::Vitals;

/// How long a piece of work may hold a loop when nothing is said.
pub const DEFAULT_SLOW_LIMIT: Duration = Duration::from_millis(100);

/// The shortest limit. Below it a watchdog tells more of how the kernel schedules threads than of what
/// they do.
pub const MIN_SLOW_LIMIT: Duration = Duration::from_millis(1);

/// So many looks fit into the limit when nothing is said: what is slow is told at the latest when this
/// part of the limit is over besides.
const LOOKS_PER_LIMIT: u32 = 4;

/// Watches loops, and tells what holds one of them for too long, while it still does.
///
/// A watchdog is given to the builders of executors, groups and event loops; one does for all of them.
/// It tells of a piece of work when the limit is over, again whenever the time has doubled, and once
/// more when it has ended. Waiting is no work.
///
/// Its thread is there while one of its loops is. It keeps no loop from ending; loops keep it.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use waterwheel_executor::{EventExecutorGroup, Watchdog};
///
/// let (tell, told) = mpsc::channel();
/// let watchdog = Watchdog::builder()
///     .limit(Duration::from_millis(10))
///     .on_slow(move |work| drop(tell.send(work.to_string())))
///     .build()?;
/// let group = EventExecutorGroup::builder().threads(2).name("workers").watchdog(&watchdog).build()?;
///
/// // Holds its executor until the watchdog has told of it.
/// let stuck = group.next().labelled("sort everything").submit(move || told.recv())?;
/// let heard = stuck.join()??;
/// assert!(heard.starts_with("the task from sort everything has held the loop for"), "{heard}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Watchdog {
    kennel: Arc<Kennel>,
}

/// Gathers the properties of a [`Watchdog`]; [`build`](Self::build) checks them.
#[must_use]
pub struct WatchdogBuilder {
    limit: Duration,
    look_every: Option<Duration>,
    on_slow: Option<OnSlow>,
}

type OnSlow = Box<dyn Fn(&SlowWork) + Send + Sync>;

/// A property of a watchdog that makes no sense.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidWatchdog {
    /// The limit is too short.
    #[error("a limit of {limit:?} is shorter than {MIN_SLOW_LIMIT:?}")]
    Limit {
        /// The limit asked for.
        limit: Duration,
    },
    /// It would look never, or too seldom to see what is beyond the limit.
    #[error(
        "looking every {look_every:?} does not do for a limit of {limit:?}: it has to be between zero and that"
    )]
    LookEvery {
        /// The interval asked for.
        look_every: Duration,
        /// The limit.
        limit: Duration,
    },
}

impl Watchdog {
    /// Starts to build one.
    pub fn builder() -> WatchdogBuilder {
        WatchdogBuilder { limit: DEFAULT_SLOW_LIMIT, look_every: None, on_slow: None }
    }

    /// How long a piece of work may hold a loop.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.kennel.limit
    }

    /// How many loops it watches: those that have started and not ended.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.kennel.watched()
    }

    /// A loop has started.
    pub(crate) fn watch(
        &self,
        name: &Arc<str>,
        reporter: &Arc<dyn Reporter>,
        vitals: &Arc<Vitals>,
    ) {
        self.kennel.admit(name, reporter, vitals);
    }

    /// A loop has ended: there may be none left.
    pub(crate) fn look_again(&self) {
        self.kennel.look_again();
    }
}

impl WatchdogBuilder {
    /// How long a piece of work may hold a loop; at least [`MIN_SLOW_LIMIT`]. Default:
    /// [`DEFAULT_SLOW_LIMIT`].
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// How often it looks at its loops; not longer than the limit. What is slow is told up to this much
    /// later than the limit, and looking costs a wake-up of the watchdog's own thread. Default: a quarter
    /// of the limit.
    pub fn look_every(mut self, interval: Duration) -> Self {
        self.look_every = Some(interval);
        self
    }

    /// Who is told. Default: the [`Reporter`] of the loop, of a [`Fault::Slow`](crate::Fault::Slow).
    ///
    /// Called on the watchdog's thread: while it runs, nothing is watched. A panic is reported, and the
    /// watchdog goes on. A handle of a watched executor that it holds keeps that alive.
    pub fn on_slow(mut self, callback: impl Fn(&SlowWork) + Send + Sync + 'static) -> Self {
        self.on_slow = Some(Box::new(callback));
        self
    }

    /// Builds it. Its thread starts with the first of its loops.
    ///
    /// # Errors
    /// [`InvalidWatchdog`] names the property that makes no sense.
    pub fn build(self) -> Result<Watchdog, InvalidWatchdog> {
        let Self { limit, look_every, on_slow } = self;
        if limit < MIN_SLOW_LIMIT {
            return Err(InvalidWatchdog::Limit { limit });
        }
        let look_every = look_every.unwrap_or(limit / LOOKS_PER_LIMIT);
        if look_every.is_zero() || look_every > limit {
            return Err(InvalidWatchdog::LookEvery { look_every, limit });
        }
        Ok(Watchdog { kennel: Arc::new(Kennel::new(limit, look_every, on_slow)) })
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog")
            .field("limit", &self.limit())
            .field("watched", &self.watched())
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
