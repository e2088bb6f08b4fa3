//! The limits of time of a connection's exchanges.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{Ctx, TimerId};
use waterwheel_executor::Nanos;

use super::call::CallFailure;
use super::exchange::{RequestProgress, ResponseProgress};
use super::link::ConnectionLink;
use crate::body::error::BodyError;

/// How long a request waits for `100 Continue` before it sends its body (RFC 9110, section 10.1.1: servers of HTTP/1.0
/// never send it).
pub(in crate::client) const CONTINUE_TIME: Duration = Duration::from_secs(1);

/// How long the short rest of a response that nobody reads may take.
pub(in crate::client) const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The tags of the timers.
const HEAD: u32 = 0;
const CONTINUE: u32 = 1;
const DRAIN: u32 = 2;
const WHOLE: u32 = 3;
const TICK: u32 = 4;

/// The ticks in the time in which a body has to move. A body that has not moved for that many is given up: after the
/// limit, and at most one tick more.
const TICKS: u32 = 4;

/// Notices that neither body moves, by a timer that runs while the connection has exchanges. A read costs an addition,
/// and a short exchange sets no timer.
#[derive(Default)]
pub(super) struct ProgressTicker {
    is_running: Cell<bool>,
    limit: Cell<Option<Duration>>,
    reads: Cell<u64>,
    /// The reads, and the time of the last write, at the last tick.
    seen: Cell<(u64, Option<Nanos>)>,
    /// The ticks without a change.
    idle_ticks: Cell<u32>,
}

impl ProgressTicker {
    pub(super) fn count_read(&self) {
        self.reads.set(self.reads.get().wrapping_add(1));
    }

    /// Begins an exchange with this limit.
    pub(super) fn start(&self, ctx: &Ctx<'_>, limit: Option<Duration>) {
        self.limit.set(limit);
        self.idle_ticks.set(0);
        self.seen.set((self.reads.get().wrapping_sub(1), None));
        if let Some(limit) = limit
            && !self.is_running.replace(true)
        {
            ctx.schedule(limit / TICKS, TICK);
        }
    }

    /// Counts a tick. Returns the limit if it is reached.
    fn tick(&self, ctx: &Ctx<'_>, waits_for_peer: bool) -> Option<Duration> {
        let now_seen = (self.reads.get(), ctx.last_write());
        let has_moved = self.seen.replace(now_seen) != now_seen;
        let ticks = if has_moved || !waits_for_peer { 0 } else { self.idle_ticks.get() + 1 };
        self.idle_ticks.set(ticks);
        self.limit.get().filter(|_| ticks >= TICKS)
    }
}

impl ConnectionLink {
    pub(super) fn schedule_head(&self, ctx: &Ctx<'_>, limit: Option<Duration>) -> Option<TimerId> {
        limit.map(|limit| ctx.schedule(limit, HEAD))
    }

    pub(super) fn schedule_continue(&self, ctx: &Ctx<'_>) {
        let timer = ctx.schedule(CONTINUE_TIME, CONTINUE);
        if let Some(exchange) = &mut self.state.borrow_mut().exchange {
            exchange.timers.proceed = Some(timer);
        }
    }

    pub(super) fn schedule_drain(&self, ctx: &Ctx<'_>) -> TimerId {
        ctx.schedule(DRAIN_TIME, DRAIN)
    }

    pub(super) fn schedule_whole(
        &self,
        ctx: &Ctx<'_>,
        limit: Option<(Nanos, Duration)>,
    ) -> Option<TimerId> {
        limit.map(|(end, _)| ctx.schedule(end.since(ctx.now()), WHOLE))
    }

    pub(super) fn on_time(self: &Rc<Self>, ctx: &Ctx<'_>, tag: u32) {
        match tag {
            HEAD => self.on_head_time(ctx),
            CONTINUE => self.send_awaited_body(ctx),
            DRAIN => self.discard(ctx),
            WHOLE => {
                let limit = self.limit_of_whole();
                // The pipe is there: before the head, the caller keeps the time.
                let closed = CallFailure::Closed { cause: None, was_idle: false };
                self.fail(ctx, closed, BodyError::TimedOut { limit });
            }
            _ => self.on_tick(ctx),
        }
    }

    fn limit_of_whole(&self) -> Duration {
        let state = self.state.borrow();
        let limit = state.exchange.as_ref().and_then(|it| it.limits.whole);
        limit.map_or(Duration::ZERO, |(_, limit)| limit)
    }

    /// Gives up, unless the request was sent, or partly sent, later than the timer assumes.
    fn on_head_time(&self, ctx: &Ctx<'_>) {
        let mut state = self.state.borrow_mut();
        let Some(exchange) = &mut state.exchange else { return };
        exchange.timers.head = None;
        let RequestProgress::Sent(written) = exchange.request else { return };
        let Some(limit) = exchange.limits.head else { return };
        let sent = ctx.last_write().map_or(written, |last| last.max(written));
        let end = sent.plus(limit);
        if end > ctx.now() {
            exchange.timers.head = Some(ctx.schedule(end.since(ctx.now()), HEAD));
            return;
        }
        let failure = match ctx.channel().pending_bytes() {
            0 => CallFailure::HeadTimeout(limit),
            _ => CallFailure::SendTimeout(limit),
        };
        drop(state);
        self.fail(ctx, failure, BodyError::TimedOut { limit });
    }

    fn on_tick(&self, ctx: &Ctx<'_>) {
        let state = self.state.borrow();
        let Some(exchange) = &state.exchange else {
            drop(state);
            return self.ticker.is_running.set(false);
        };
        let is_sending = exchange.sender.as_ref().is_some_and(|sender| sender.is_blocked)
            || ctx.channel().pending_bytes() > 0;
        let is_receiving = exchange.response == ResponseProgress::Body
            && exchange.pipe.as_ref().is_some_and(|pipe| {
                // A body that nobody reads stops the socket: the server is not waited for.
                let was_paused = pipe.take_paused();
                pipe.waits_for_peer() && !was_paused
            });
        drop(state);
        match self.ticker.tick(ctx, is_sending || is_receiving) {
            Some(limit) => {
                self.ticker.is_running.set(false);
                self.fail(ctx, CallFailure::SendTimeout(limit), BodyError::TimedOut { limit });
            }
            None => match self.ticker.limit.get() {
                Some(limit) => {
                    ctx.schedule(limit / TICKS, TICK);
                }
                None => self.ticker.is_running.set(false),
            },
        }
    }
}
