//! The reports of a watchdog.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::watchdog::activity_cell::RunningWork;
use crate::watchdog::call_site::CallSiteInfo;

/// A piece of work that holds a loop for too long, or has held it.
///
/// Its `Display` text is a sentence that names the work, how long it has held the loop, and the thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlowWork {
    /// The executor's name.
    pub executor: Arc<str>,
    /// The name of the thread, if it has one.
    pub thread: Option<String>,
    /// The innermost code that runs.
    pub activity: Activity,
    /// The outermost piece of work, if it is not the innermost code: both hold the loop.
    pub enclosing: Option<Activity>,
    /// The wall-clock time at which the work began to hold the loop.
    pub since: SystemTime,
    /// How long the work has held the loop. The true time is longer by up to one interval between two looks; for
    /// work that has ended, the true time may also be shorter by up to one interval.
    pub held_for: Duration,
    /// How often the work was reported, including this report: when the limit had passed, whenever the time had
    /// doubled, and when the work ended.
    pub report_count: u32,
    /// True if the work has ended. The report then describes the activity that was last seen.
    pub is_over: bool,
}

/// One activity of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activity {
    /// The kind of code.
    pub what: UserCode,
    /// Where the code came from: the label or the source line of a task, the type of a handler.
    pub origin: Origin,
    /// The call site and its method, if the code has one.
    pub call_site: Option<CallSiteInfo>,
}

impl Activity {
    /// Returns the activity of a round of events.
    pub(super) fn round() -> Activity {
        Activity { what: UserCode::Round, origin: Origin::labelled("the driver"), call_site: None }
    }

    /// Returns the innermost activity, and the outermost one if it differs. Looks up the names at once.
    pub(super) fn of(running: &RunningWork) -> (Activity, Option<Activity>) {
        let call_site = running.call_site.and_then(CallSiteInfo::decode);
        let activity = |(what, origin), call_site| Activity { what, origin, call_site };
        match running.inner {
            Some(inner) => (activity(inner, call_site), Some(activity(running.outer, None))),
            None => (activity(running.outer, call_site), None),
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.call_site {
            Some(call_site) => write!(f, "the {} {call_site}", self.what),
            None => write!(f, "the {} from {}", self.what, self.origin),
        }
    }
}

impl fmt::Display for SlowWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { activity, held_for, .. } = self;
        // Microseconds: the looks are not more precise.
        let held_for = Duration::from_micros(held_for.as_micros().try_into().unwrap_or(u64::MAX));
        let comma = if activity.call_site.is_some() { "," } else { "" };
        if self.is_over {
            write!(f, "{activity}{comma} has released the loop after {held_for:?}")?;
        } else {
            write!(f, "{activity}{comma} has held the loop for {held_for:?}")?;
        }
        if let Some(enclosing) = &self.enclosing {
            write!(f, ", inside of {enclosing}")?;
        }
        match &self.thread {
            Some(thread) => write!(f, ", on thread `{thread}`"),
            None => Ok(()),
        }
    }
}
