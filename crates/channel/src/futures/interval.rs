//! Ticks that can be awaited.

use std::time::Duration;

use waterwheel_executor::{MissedTicks, Nanos};

use super::sleep::Sleep;
use crate::event_loop::local_loop::LocalLoop;

/// Ticks every `period`, the first time at once. Missed ticks catch up.
///
/// # Panics
/// If the period is zero.
pub fn interval(period: Duration) -> Interval {
    interval_with(MissedTicks::CatchUp, period)
}

/// As [`interval`], with a choice of what happens to missed ticks.
///
/// # Panics
/// If the period is zero.
pub fn interval_with(missed: MissedTicks, period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period above zero");
    Interval { period, missed, next: None }
}

/// A clock that ticks. Made by [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    missed: MissedTicks,
    /// Unknown before the first tick.
    next: Option<Nanos>,
}

impl Interval {
    /// Waits for the next tick; returns when it was due. A tick that is given up half-way is not
    /// lost: the next call waits for the same one.
    ///
    /// # Panics
    /// Off an event loop.
    pub async fn tick(&mut self) -> Nanos {
        let now = || LocalLoop::current().expect("an interval is awaited on an event loop").now();
        let due = *self.next.get_or_insert_with(now);
        Sleep::until(due).await;
        self.next = self.missed.next_tick(due, now(), self.period); // The period is above zero.
        due
    }

    /// How far apart ticks are.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }
}
