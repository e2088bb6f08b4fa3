//! Detects idle channels: no read, no write, or neither for a while (C14).
//!
//! 1. There is one timer per limit, which activity does not touch (`timeout/rearming_timer.rs`): a read or a write costs
//!    one clock read and no timer operation, and the event is neither early nor late.
//! 2. A read round counts from its end; a channel is not idle during a round.
//! 3. A write counts when the transport has accepted some of its bytes, not while it is pending. The channel records
//!    that time (`Ctx::last_write`), so this handler need not intercept writes.
//! 4. While the channel stays idle the event repeats after each limit; the first one is marked.

use std::fmt;
use std::time::Duration;

use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Message, Msg, Signature};
use waterwheel_executor::{Error, Nanos};

use crate::timeout::read_activity::ReadActivity;
use crate::timeout::rearming_timer::RearmingTimer;

/// Fires an [`IdleEvent`], a user event for the following handlers, when nothing was read, nothing was written, or
/// neither for a while. See the [crate's page](crate) for an example.
///
/// *Read* means a message that reaches this handler. Next to the transport every byte counts; after a decoder only whole
/// messages do, and a peer that sends a byte now and then is idle. *Written* means accepted by the transport,
/// wherever this handler is in the pipeline.
///
/// A clone has the same limits and fresh state: build one handler when the program starts and add a clone to each
/// channel.
pub struct IdleHandler {
    limits: IdleLimits,
    /// Time of the activation; `None` while the channel is inactive.
    started: Option<Nanos>,
    reads: ReadActivity,
    /// Timer and last event, indexed by [`IdleKind`].
    timers: [IdleTimer; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct IdleLimits {
    /// The limits, indexed by [`IdleKind`].
    after: [Option<Duration>; 3],
    closes: [bool; 3],
}

impl IdleLimits {
    fn has_limit(&self, kind: IdleKind) -> bool {
        self.after[kind.index()].is_some()
    }
}

#[derive(Clone, Copy, Debug)]
struct IdleTimer {
    timer: RearmingTimer,
    /// The time of the last activity when the last event was fired.
    reported: Option<Nanos>,
}

impl IdleHandler {
    /// Returns a builder without limits.
    pub fn builder() -> IdleHandlerBuilder {
        IdleHandlerBuilder::default()
    }

    fn new(limits: IdleLimits) -> Self {
        Self {
            limits,
            started: None,
            reads: ReadActivity::default(),
            timers: IdleKind::EACH
                .map(|kind| IdleTimer { timer: RearmingTimer::new(kind as u32), reported: None }),
        }
    }

    fn watches_reads(&self) -> bool {
        self.limits.has_limit(IdleKind::Reader) || self.limits.has_limit(IdleKind::All)
    }

    fn start(&mut self, ctx: &Ctx<'_>) {
        if self.started.is_some() {
            return; // The handler was added while the channel was about to fire `on_active`.
        }
        let now = ctx.now();
        (self.started, self.reads) = (Some(now), ReadActivity::starting(now));
        if self.limits.has_limit(IdleKind::Writer) || self.limits.has_limit(IdleKind::All) {
            let _ = ctx.last_write(); // Makes the channel record write times from now on.
        }
        for kind in IdleKind::EACH {
            if let Some(limit) = self.limits.after[kind.index()] {
                self.timer(kind).set(limit, ctx);
            }
        }
    }

    fn stop(&mut self, ctx: &Ctx<'_>) {
        self.started = None;
        for timer in &mut self.timers {
            timer.timer.cancel(ctx);
        }
    }

    fn timer(&mut self, kind: IdleKind) -> &mut RearmingTimer {
        &mut self.timers[kind.index()].timer
    }

    /// Returns the time of the last activity of this kind; `None` during a read round.
    fn last_activity(&self, kind: IdleKind, started: Nanos, ctx: &Ctx<'_>) -> Option<Nanos> {
        let written = || ctx.last_write().unwrap_or(started);
        match kind {
            IdleKind::Writer => Some(written()),
            IdleKind::Reader => self.reads.last(),
            IdleKind::All => self.reads.last().map(|read| read.max(written())),
        }
    }

    fn check_idle(&mut self, kind: IdleKind, limit: Duration, ctx: &Ctx<'_>) {
        self.timer(kind).fired();
        // An inactive channel is closed, not idle; `on_inactive` follows.
        let Some(started) = self.started.filter(|_| ctx.is_active()) else { return };
        let Some(last) = self.last_activity(kind, started, ctx) else {
            return self.timer(kind).set(limit, ctx);
        };
        if !self.timer(kind).is_due(last.plus(limit), ctx) {
            return;
        }
        self.timer(kind).set(limit, ctx);
        let reported = self.timers[kind.index()].reported.replace(last);
        ctx.fire_user_event(IdleEvent { kind, first: reported != Some(last) });
        // A handler that removed this one in response keeps the channel open.
        if self.limits.closes[kind.index()] && !ctx.is_removed() {
            ctx.close();
        }
    }
}

impl Handler for IdleHandler {
    fn interest(&self) -> Events {
        let life = Events::ACTIVE | Events::INACTIVE;
        if self.watches_reads() { life | Events::READ | Events::READ_COMPLETE } else { life }
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if ctx.is_active() {
            self.start(ctx);
        }
        Ok(())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.start(ctx);
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.stop(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.reads.on_read();
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.reads.on_read_complete(|| ctx.now());
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        for kind in IdleKind::EACH {
            if kind as u32 == tag
                && let Some(limit) = self.limits.after[kind.index()]
            {
                self.check_idle(kind, limit, ctx);
            }
        }
        Ok(())
    }
}

impl Clone for IdleHandler {
    fn clone(&self) -> Self {
        Self::new(self.limits)
    }
}

impl fmt::Debug for IdleHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [reader, writer, all] = self.limits.after;
        f.debug_struct("IdleHandler")
            .field("reader", &reader)
            .field("writer", &writer)
            .field("all", &all)
            .finish_non_exhaustive()
    }
}

/// Builds an [`IdleHandler`]. At least one limit is required.
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct IdleHandlerBuilder {
    limits: IdleLimits,
}

impl IdleHandlerBuilder {
    /// Fires an event when nothing was read for this long.
    pub fn reader(self, limit: Duration) -> Self {
        self.after(IdleKind::Reader, limit)
    }

    /// Fires an event when nothing was written for this long.
    pub fn writer(self, limit: Duration) -> Self {
        self.after(IdleKind::Writer, limit)
    }

    /// Fires an event when nothing was read and nothing was written for this long.
    pub fn all(self, limit: Duration) -> Self {
        self.after(IdleKind::All, limit)
    }

    /// Closes the channel after the event of this kind. Handlers may write a last message in response; flushed bytes are
    /// sent before the close. A handler that removes the idle handler in response keeps the channel open.
    pub fn close_on(mut self, kind: IdleKind) -> Self {
        self.limits.closes[kind.index()] = true;
        self
    }

    fn after(mut self, kind: IdleKind, limit: Duration) -> Self {
        self.limits.after[kind.index()] = Some(limit);
        self
    }

    /// Builds the handler.
    ///
    /// # Errors
    /// [`InvalidIdle`] names the limit that is wrong.
    pub fn build(self) -> Result<IdleHandler, InvalidIdle> {
        let limits = self.limits;
        let mut watched = false;
        for kind in IdleKind::EACH {
            match limits.after[kind.index()] {
                Some(Duration::ZERO) => return Err(InvalidIdle::Zero { kind }),
                None if limits.closes[kind.index()] => {
                    return Err(InvalidIdle::ClosesUnwatched { kind });
                }
                limit => watched |= limit.is_some(),
            }
        }
        if watched { Ok(IdleHandler::new(limits)) } else { Err(InvalidIdle::NothingWatched) }
    }
}

/// The kinds of idleness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdleKind {
    /// Nothing was read.
    Reader,
    /// Nothing was written.
    Writer,
    /// Nothing was read, and nothing was written.
    All,
}

impl IdleKind {
    const EACH: [IdleKind; 3] = [IdleKind::Reader, IdleKind::Writer, IdleKind::All];

    fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for IdleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IdleKind::Reader => "reader",
            IdleKind::Writer => "writer",
            IdleKind::All => "all",
        })
    }
}

/// User event of an [`IdleHandler`]: the channel has been idle for a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleEvent {
    /// The kind of idleness.
    pub kind: IdleKind,
    /// True for the first event of its kind since the last activity.
    pub first: bool,
}

impl Message for IdleEvent {}

/// Why an [`IdleHandler`] cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidIdle {
    /// A limit is zero.
    #[error("the idle limit `{kind}` is zero; omit it for no limit")]
    Zero {
        /// The kind of the limit.
        kind: IdleKind,
    },
    /// No limit is set.
    #[error("an idle handler needs a limit: set `reader`, `writer` or `all`")]
    NothingWatched,
    /// `close_on` names a kind without a limit.
    #[error("`close_on({kind})` needs an idle limit of that kind")]
    ClosesUnwatched {
        /// The kind of the limit.
        kind: IdleKind,
    },
}

impl From<InvalidIdle> for Error {
    fn from(error: InvalidIdle) -> Self {
        Error::new(error)
    }
}
