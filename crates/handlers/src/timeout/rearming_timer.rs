//! A timer that activity does not touch.
//!
//! ```text
//!   limit       ├──────── limit ────────┤
//!   time   ─────●────a────a─────────────┼────┬──────────────► a: activity, which records its time
//!             start       │             ▲    ▲
//!                         │             │    └ set again for the rest: the limit is exceeded
//!                         │             └ the timer fires: not exceeded yet
//!                         └ the last activity
//! ```
//!
//! When the timer fires, it compares the deadline of that moment, and is set again for the rest. Activity therefore
//! costs at most a clock read and no timer operation, and a limit is reported neither early nor late.

use std::time::Duration;

use waterwheel_channel::{Ctx, TimerId};
use waterwheel_executor::Nanos;

/// A timer of a handler that is set again for the rest while its deadline has moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RearmingTimer {
    /// The tag that the handler's `on_timer` gets.
    tag: u32,
    id: Option<TimerId>,
}

impl RearmingTimer {
    /// Returns a timer that is not set.
    pub(crate) fn new(tag: u32) -> Self {
        Self { tag, id: None }
    }

    /// True from when the timer is set until it has fired.
    pub(crate) fn is_set(&self) -> bool {
        self.id.is_some()
    }

    /// Sets the timer, which must not be set.
    pub(crate) fn set(&mut self, delay: Duration, ctx: &Ctx<'_>) {
        debug_assert!(!self.is_set(), "a second timer would fire twice");
        self.id = Some(ctx.schedule(delay, self.tag));
    }

    /// Cancels the timer, if it is set.
    pub(crate) fn cancel(&mut self, ctx: &Ctx<'_>) {
        if let Some(id) = self.id.take() {
            ctx.cancel(id);
        }
    }

    /// Records that the timer has fired. The handler calls this first in its `on_timer`.
    pub(crate) fn fired(&mut self) {
        self.id = None;
    }

    /// Returns true if the deadline has passed. Otherwise sets the timer for the rest.
    #[must_use]
    pub(crate) fn is_due(&mut self, deadline: Nanos, ctx: &Ctx<'_>) -> bool {
        let left = deadline.since(ctx.now());
        if !left.is_zero() {
            self.set(left, ctx);
        }
        left.is_zero()
    }
}
