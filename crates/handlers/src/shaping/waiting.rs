//! Waking handlers that wait for a ticket, from any thread.

use std::fmt;

use waterwheel_channel::{Channel, Ctx, LocalLoop, SlotId};

use super::handler::TrafficShapingHandler;

/// A handler that waits, as a limiter knows it.
pub(super) struct WaitingHandler {
    channel: Channel,
    slot: SlotId,
}

impl WaitingHandler {
    pub(super) fn new(ctx: &Ctx<'_>) -> Self {
        Self { channel: ctx.channel(), slot: ctx.slot() }
    }

    /// Makes the handler look at the rates again, on its loop. Always by a task: the caller may be a handler of the same
    /// channel, with the waiting handler on the stack.
    pub(super) fn wake(self) {
        let event_loop = self.channel.event_loop();
        // A loop that has ended has no handlers that wait.
        let _ended = event_loop.execute(move || {
            if let Some(here) = LocalLoop::current() {
                here.with_pipeline(&self.channel, |pipeline| {
                    pipeline.with_handler(self.slot, TrafficShapingHandler::on_rate_changed)
                });
            }
        });
    }
}

impl fmt::Debug for WaitingHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitingHandler").field(&self.channel).finish()
    }
}
