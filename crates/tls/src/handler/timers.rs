//! The tags of a TLS handler's timers, and completions that set them.

use std::time::Duration;

use waterwheel_channel::{Completion, Ctx, LocalCtx, TimerId};

/// The handshake has taken too long.
pub(super) const HANDSHAKE_LIMIT: u32 = 0;
/// Ciphertext was written: there may be room for more.
pub(super) const WRITTEN: u32 = 1;
/// The close_notify was written, or failed.
pub(super) const CLOSE_NOTIFY_WRITTEN: u32 = 2;
/// The close, or the end of TLS, has taken too long.
pub(super) const CLOSE_LIMIT: u32 = 3;
/// The configuration of the server was chosen.
pub(super) const CHOICE_MADE: u32 = 4;

/// Returns a completion that calls the handler's `on_timer` with `tag`, in the next turn.
pub(super) fn call_back(ctx: &Ctx<'_>, tag: u32) -> Completion {
    let local = ctx.to_local();
    Completion::local(move |_| call_soon(&local, tag))
}

/// Calls the handler's `on_timer` with `tag`, in the next turn. Completions and futures end without the handler at hand;
/// a timer has it.
pub(super) fn call_soon(local: &LocalCtx, tag: u32) {
    // If the handler is gone, it has settled everything itself.
    let _gone = local.run(move |ctx| {
        ctx.schedule(Duration::ZERO, tag);
    });
}

/// A timer that is set at most once at a time.
#[derive(Debug, Default)]
pub(super) struct LimitTimer(Option<TimerId>);

impl LimitTimer {
    pub(super) fn set(&mut self, ctx: &Ctx<'_>, limit: Duration, tag: u32) {
        self.cancel(ctx);
        self.0 = Some(ctx.schedule(limit, tag));
    }

    pub(super) fn cancel(&mut self, ctx: &Ctx<'_>) {
        if let Some(id) = self.0.take() {
            ctx.cancel(id);
        }
    }
}
