//! Tells when nothing happens (C14).
//!
//! ```text
//!   limit       ├──────── limit ────────┤
//!   time   ─────●────r────r─────────────┼────┬──────────────► r: something was read
//!             start       │             ▲    ▲
//!                         │             │    └ set again for what is left: now it is idle
//!                         │             └ the timer: not idle yet
//!                         └ the last time something happened
//! ```
//!
//! 1. There is one timer for each limit. What happens does not touch it, but leaves its time behind; the
//!    timer looks at that when it comes, and is set again for what is left. So a read or a write costs a
//!    look at the clock and no timer, and the event is not a moment early or late.
//! 2. A round of reads counts from its end, and a channel is not idle within one.
//! 3. A write counts when some of it was handed to the transport, not while it waits. The channel notes that
//!    itself (`Ctx::last_write`): this handler is not in the way of writes, whoever makes them.
//! 4. While nothing happens the event comes again after each limit; the first one says that it is the
//!    first.

use std::fmt;
use std::time::Duration;

use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Message, Msg, Signature, TimerId};
use waterwheel_executor::{Error, Nanos};

/// Fires an [`IdleEvent`], a user event for the handlers behind it, when nothing was read, written or
/// either for a while. See the [crate's page](crate) for an example.
///
/// *Read* means what comes to this handler. Next to the transport that is every byte; behind a decoder it
/// is whole messages, and a peer that sends a byte now and then is idle. *Written* means handed to the
/// transport, wherever this handler stands.
///
/// A clone is a handler with the same limits that has seen nothing yet: make one when the program starts,
/// and give a clone to each channel.
pub struct IdleHandler {
    limits: Limits,
    /// `None`: the channel is not active.
    started: Option<Nanos>,
    last_read: Nanos,
    /// In a round of reads.
    reading: bool,
    /// By kind.
    watches: [Watch; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    /// By kind.
    after: [Option<Duration>; 3],
    closes: [bool; 3],
}

impl Limits {
    fn has(&self, kind: IdleKind) -> bool {
        self.after[kind.index()].is_some()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    timer: Option<TimerId>,
    /// When the last thing had happened that an event has told of.
    told: Option<Nanos>,
}

impl IdleHandler {
    /// Starts to make one, with no limits yet.
    pub fn builder() -> IdleHandlerBuilder {
        IdleHandlerBuilder::default()
    }

    fn new(limits: Limits) -> Self {
        Self {
            limits,
            started: None,
            last_read: Nanos::default(),
            reading: false,
            watches: Default::default(),
        }
    }

    fn watches_reads(&self) -> bool {
        self.limits.has(IdleKind::Reader) || self.limits.has(IdleKind::All)
    }

    fn start(&mut self, ctx: &Ctx<'_>) {
        if self.started.is_some() {
            return; // It was added to a channel that was about to say that it is active.
        }
        let now = ctx.now();
        (self.started, self.last_read, self.reading) = (Some(now), now, false);
        if self.limits.has(IdleKind::Writer) || self.limits.has(IdleKind::All) {
            let _ = ctx.last_write(); // Noted from now on.
        }
        for kind in IdleKind::EACH {
            if let Some(limit) = self.limits.after[kind.index()] {
                self.set_timer(kind, limit, ctx);
            }
        }
    }

    fn stop(&mut self, ctx: &Ctx<'_>) {
        self.started = None;
        for watch in &mut self.watches {
            if let Some(timer) = watch.timer.take() {
                ctx.cancel(timer);
            }
        }
    }

    fn set_timer(&mut self, kind: IdleKind, delay: Duration, ctx: &Ctx<'_>) {
        self.watches[kind.index()].timer = Some(ctx.schedule(delay, kind as u32));
    }

    /// When what this kind is about has happened last; `None` if it is happening.
    fn last(&self, kind: IdleKind, started: Nanos, ctx: &Ctx<'_>) -> Option<Nanos> {
        let written = || ctx.last_write().unwrap_or(started);
        match kind {
            IdleKind::Writer => Some(written()),
            _ if self.reading => None,
            IdleKind::Reader => Some(self.last_read),
            IdleKind::All => Some(self.last_read.max(written())),
        }
    }

    fn look(&mut self, kind: IdleKind, limit: Duration, ctx: &Ctx<'_>) {
        // Closed, and about to be told: then it is not idle but over.
        let Some(started) = self.started.filter(|_| ctx.is_active()) else { return };
        let now = ctx.now();
        let Some(last) = self.last(kind, started, ctx) else {
            return self.set_timer(kind, limit, ctx);
        };
        let left = last.plus(limit).since(now);
        if !left.is_zero() {
            return self.set_timer(kind, left, ctx);
        }
        self.set_timer(kind, limit, ctx);
        let told = self.watches[kind.index()].told.replace(last);
        ctx.fire_user_event(IdleEvent { kind, first: told != Some(last) });
        // Whoever has removed this handler in answer does not want it any more.
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
        self.reading = true;
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        // A round of nothing, or of half a message that a decoder keeps, is none.
        if self.reading {
            self.reading = false;
            self.last_read = ctx.now();
        }
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        for kind in IdleKind::EACH {
            if kind as u32 == tag
                && let Some(limit) = self.limits.after[kind.index()]
            {
                self.look(kind, limit, ctx);
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

/// What an [`IdleHandler`] is to watch. At least one limit is set.
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct IdleHandlerBuilder {
    limits: Limits,
}

impl IdleHandlerBuilder {
    /// An event when nothing was read for so long.
    pub fn reader(self, limit: Duration) -> Self {
        self.after(IdleKind::Reader, limit)
    }

    /// An event when nothing was written for so long.
    pub fn writer(self, limit: Duration) -> Self {
        self.after(IdleKind::Writer, limit)
    }

    /// An event when nothing was read and nothing was written for so long.
    pub fn all(self, limit: Duration) -> Self {
        self.after(IdleKind::All, limit)
    }

    /// Closes the channel when it has been idle in this way, after the event: handlers may say good-bye,
    /// and what they flush is sent. One that removes the idle handler then keeps the channel open.
    pub fn close_on(mut self, kind: IdleKind) -> Self {
        self.limits.closes[kind.index()] = true;
        self
    }

    fn after(mut self, kind: IdleKind, limit: Duration) -> Self {
        self.limits.after[kind.index()] = Some(limit);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// [`InvalidIdle`] names what is wrong with the limits.
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

/// What has not happened.
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

/// Nothing has happened for as long as the [`IdleHandler`] was told to wait: a user event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleEvent {
    /// What has not happened.
    pub kind: IdleKind,
    /// It is the first of its kind since something has.
    pub first: bool,
}

impl Message for IdleEvent {}

/// Why an [`IdleHandler`] cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidIdle {
    /// A limit is zero.
    #[error("the idle limit `{kind}` is zero; leave it out to have none")]
    Zero {
        /// Which one.
        kind: IdleKind,
    },
    /// There is no limit at all.
    #[error("an idle handler without a limit: set `reader`, `writer` or `all`")]
    NothingWatched,
    /// The channel is to be closed, but there is no limit for it.
    #[error("to be closed on `{kind}`, which has no idle limit")]
    ClosesUnwatched {
        /// Which one.
        kind: IdleKind,
    },
}

impl From<InvalidIdle> for Error {
    fn from(error: InvalidIdle) -> Self {
        Error::new(error)
    }
}
