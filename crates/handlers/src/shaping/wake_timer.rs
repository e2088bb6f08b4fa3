//! The one timer of a direction.

use waterwheel_channel::{Ctx, TimerId};
use waterwheel_executor::Nanos;

/// A timer that is set while the handler waits, and only then.
#[derive(Debug)]
pub(super) struct WakeTimer {
    tag: u32,
    set: Option<(TimerId, Nanos)>,
}

impl WakeTimer {
    pub(super) fn new(tag: u32) -> Self {
        Self { tag, set: None }
    }

    /// Sets the timer; [`Nanos::MAX`] for none.
    pub(super) fn set(&mut self, at: Nanos, ctx: &Ctx<'_>) {
        if self.set.is_some_and(|(_, set)| set == at) {
            return;
        }
        self.cancel(ctx);
        if let Some(at) = at.finite() {
            self.set = Some((ctx.schedule(at.since(ctx.now()), self.tag), at));
        }
    }

    pub(super) fn cancel(&mut self, ctx: &Ctx<'_>) {
        if let Some((id, _)) = self.set.take() {
            ctx.cancel(id);
        }
    }

    /// Notes that the timer has fired.
    pub(super) fn on_fired(&mut self) {
        self.set = None;
    }
}
