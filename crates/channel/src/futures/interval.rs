//! Periodic ticks for futures.

use std::time::Duration;

use waterwheel_executor::{MissedTicks, Nanos};

use super::sleep::sleep_until;
use crate::event_loop::local_loop::LocalLoop;

/// Creates an interval that ticks every `period`, for the first time at once. Missed ticks are caught up.
///
/// # Panics
/// If the period is zero.
pub fn interval(period: Duration) -> Interval {
    interval_with(MissedTicks::CatchUp, period)
}

/// Creates an interval like [`interval`]; `missed` sets what happens to missed ticks.
///
/// # Panics
/// If the period is zero.
pub fn interval_with(missed: MissedTicks, period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period of an interval must be above zero");
    Interval { period, missed, next: None }
}

/// A source of periodic ticks. Created by [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    missed: MissedTicks,
    /// `None` before the first tick.
    next: Option<Nanos>,
}

impl Interval {
    /// Waits for the next tick; returns the time at which it was due. If this future is dropped before the tick,
    /// the next call waits for the same tick.
    ///
    /// # Panics
    /// If the future is not polled on an event loop.
    pub async fn tick(&mut self) -> Nanos {
        let now =
            || LocalLoop::current().expect("an interval must be polled on an event loop").now();
        let due = *self.next.get_or_insert_with(now);
        sleep_until(due).await;
        self.next = self.missed.next_tick(due, now(), self.period); // The period is above zero.
        due
    }

    /// Returns the time between two ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }
}
