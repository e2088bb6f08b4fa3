//! What a watchdog tells.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::watchdog::activity_cell::Seen;
use crate::watchdog::call_site::Place;

/// A piece of work that holds a loop for too long, or has done so.
///
/// Its text is a sentence that names the work, how long it has held the loop, and the thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlowWork {
    /// The executor's name.
    pub executor: Arc<str>,
    /// The name of the thread, if it has one.
    pub thread: Option<String>,
    /// What runs: the innermost, if one thing calls another.
    pub activity: Activity,
    /// What it runs inside of, if that is something else: the loop is held by both.
    pub within: Option<Activity>,
    /// When it began to hold the loop, by the time of day.
    pub since: SystemTime,
    /// How long it has held the loop: up to one interval between two looks more, and of what has ended
    /// up to one less.
    pub held_for: Duration,
    /// How often it was told of, this time included: once when the limit was over, then whenever the
    /// time had doubled, and at its end.
    pub told: u32,
    /// It has ended. What is said of it is what was last seen.
    pub is_over: bool,
}

/// What a loop is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activity {
    /// Which kind of code.
    pub what: UserCode,
    /// Where it came from: the label or the source line of a task, the type of a handler.
    pub origin: Origin,
    /// Which of many, and what it was called for, if it has a name of its own.
    pub place: Option<Place>,
}

impl Activity {
    /// A round of events.
    pub(super) fn round() -> Activity {
        Activity { what: UserCode::Round, origin: Origin::labelled("the driver"), place: None }
    }

    /// What was seen, and what that is inside of. The names are looked up now.
    pub(super) fn of(seen: &Seen) -> (Activity, Option<Activity>) {
        let place = seen.station.and_then(Place::find);
        let activity = |(what, origin), place| Activity { what, origin, place };
        match seen.inner {
            Some(inner) => (activity(inner, place), Some(activity(seen.outer, None))),
            None => (activity(seen.outer, place), None),
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "the {} {place}", self.what),
            None => write!(f, "the {} from {}", self.what, self.origin),
        }
    }
}

impl fmt::Display for SlowWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { activity, held_for, .. } = self;
        // No more digits than the looks are worth.
        let held_for = Duration::from_micros(held_for.as_micros().try_into().unwrap_or(u64::MAX));
        let comma = if activity.place.is_some() { "," } else { "" };
        if self.is_over {
            write!(f, "{activity}{comma} has let go of the loop after {held_for:?}")?;
        } else {
            write!(f, "{activity}{comma} has held the loop for {held_for:?}")?;
        }
        if let Some(within) = &self.within {
            write!(f, ", inside of {within}")?;
        }
        match &self.thread {
            Some(thread) => write!(f, ", on thread `{thread}`"),
            None => Ok(()),
        }
    }
}
