//! Time limits of a connection, by one timer that is seldom set.
//!
//! A timer for every request would cost more than the request. So the connection notes since when it waits for what, and
//! has one timer at the earliest moment at which a limit could be exceeded; if it fires too early, because something has
//! happened since, it is set again.

use std::time::Duration;

use waterwheel_channel::{Ctx, TimerId};
use waterwheel_executor::Nanos;

/// The wait of a connection, with the moment from which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// For nothing that is limited: the service is at work.
    Nothing,
    /// For the first byte of the next request.
    Request,
    /// For the rest of a head.
    Head,
    /// For bytes of a body.
    Body,
    /// For the end of the peer's data, after the last answer.
    End,
}

/// The timer of a connection, and the state of its rate checks.
#[derive(Debug)]
pub(super) struct Deadlines {
    wait: Wait,
    since: Nanos,
    timer: Option<(TimerId, Nanos)>,
    /// The bytes of bodies that have come since the wait for them began.
    body_bytes: u64,
    /// The bytes that waited to be written at the last check, if any did.
    stalled: Option<StallCheck>,
}

/// A look at the bytes that wait to be written.
#[derive(Clone, Copy, Debug)]
struct StallCheck {
    at: Nanos,
    /// The bytes written to the channel so far, less those that wait.
    sent: u64,
}

/// The tag of the timer.
pub(super) const TIMER: u32 = 0;

impl Deadlines {
    pub(super) fn new() -> Self {
        Self { wait: Wait::Nothing, since: Nanos(0), timer: None, body_bytes: 0, stalled: None }
    }

    /// Notes what the connection waits for; `limit` is the time that it may take.
    #[inline]
    pub(super) fn set_wait(&mut self, ctx: &Ctx<'_>, wait: Wait, limit: Duration) {
        let now = ctx.now();
        if wait != self.wait {
            self.wait = wait;
            self.since = now;
            self.body_bytes = 0;
        }
        if wait != Wait::Nothing {
            self.arm(ctx, self.since.plus(limit));
        }
    }

    /// Has the timer fire at `due` or before.
    #[inline]
    fn arm(&mut self, ctx: &Ctx<'_>, due: Nanos) {
        match self.timer {
            Some((_, armed)) if armed <= due => {}
            _ => self.rearm(ctx, due),
        }
    }

    #[cold]
    fn rearm(&mut self, ctx: &Ctx<'_>, due: Nanos) {
        if let Some((timer, _)) = self.timer.take() {
            ctx.cancel(timer);
        }
        let delay = due.since(ctx.now());
        self.timer = Some((ctx.schedule(delay, TIMER), due));
    }

    /// Notes that the timer has fired.
    pub(super) fn on_timer(&mut self) {
        self.timer = None;
    }

    /// Forgets what the connection waited for: it has come.
    #[inline]
    pub(super) fn clear_wait(&mut self) {
        self.wait = Wait::Nothing;
    }

    /// Has the timer fire again for the same wait.
    pub(super) fn continue_wait(&mut self, ctx: &Ctx<'_>, limit: Duration) {
        if self.wait != Wait::Nothing {
            self.arm(ctx, self.since.plus(limit));
        }
    }

    pub(super) fn wait(&self) -> Wait {
        self.wait
    }

    /// Returns since when the connection waits.
    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    /// Counts bytes of a body.
    pub(super) fn count_body(&mut self, bytes: u64) {
        self.body_bytes += bytes;
    }

    /// Begins the next interval of the check of a body's rate; returns the bytes of the last one.
    pub(super) fn take_body_bytes(&mut self, now: Nanos) -> u64 {
        self.since = now;
        std::mem::take(&mut self.body_bytes)
    }

    /// Looks at the bytes that wait to be written. Returns true if nothing of them was sent for as long as `limit`.
    pub(super) fn is_stalled(
        &mut self,
        ctx: &Ctx<'_>,
        written: u64,
        pending: usize,
        limit: Duration,
    ) -> bool {
        if pending == 0 {
            self.stalled = None;
            return false;
        }
        let now = ctx.now();
        let sent = written.saturating_sub(pending as u64);
        // A file that the kernel sends makes progress that the pending bytes do not show.
        let last_write = ctx.last_write().unwrap_or(Nanos(0));
        match self.stalled {
            Some(check) if check.sent == sent && last_write <= check.at => {
                now.since(check.at) >= limit
            }
            _ => {
                self.stalled = Some(StallCheck { at: now, sent });
                false
            }
        }
    }

    /// Has the timer fire for the next look at the bytes that wait to be written.
    pub(super) fn watch_output(&mut self, ctx: &Ctx<'_>, limit: Duration) {
        self.arm(ctx, ctx.now().plus(limit));
    }
}
