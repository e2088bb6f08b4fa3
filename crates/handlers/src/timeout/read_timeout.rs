//! Closes channels whose peer sends nothing (K07).
//!
//! ```text
//!   silence counts from the latest of: active · the end of the last read round · the transport began to read
//!   silence does not count while: a round is in progress · the transport does not read · the input is over
//! ```
//!
//! 1. There is one timer for a channel, which reads do not touch (`rearming_timer`).
//! 2. Time in which the channel itself does not read is not the peer's silence: without a requested round
//!    (`auto_read` off, a handler withholds the request), in a pause because the channel is not writable, while it is
//!    deregistered. When reading begins again the peer has the whole limit. `counting_pauses` counts that time too,
//!    as Netty does.
//! 3. After the end of the peer's data (`HalfClosed::Input`) nothing can come, and nothing is measured.
//! 4. The error is fired once. A handler that removes this one in response keeps the channel open.
//! 5. The close passes the handlers before this one, which may say goodbye to the peer, and has the error as its cause.
//! 6. A drain does not change anything: a silent channel is closed during it as at any other time.

use std::fmt;
use std::time::Duration;

use waterwheel_channel::{Ctx, Events, HalfClosed, Handler, HandlerResult, Msg, Signature};
use waterwheel_executor::{Error, Nanos};

use super::error::{InvalidTimeout, TimeoutError};
use super::read_activity::ReadActivity;
use super::rearming_timer::RearmingTimer;

/// Closes the channel if no message came for a while, after a [`TimeoutError::Read`] for `on_error` of the following
/// handlers.
///
/// A *message* is one that reaches this handler. Next to the transport every byte counts; after a decoder only whole
/// messages do, and a peer that drips single bytes is silent. Time in which the channel does not read does not count:
/// see [`counting_pauses`](Self::counting_pauses).
///
/// A clone has the same limit and fresh state.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_handlers::{ReadTimeout, TimeoutError};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let timeout = ReadTimeout::new(Duration::from_secs(30))?;
/// let mut channel = Embedded::new(|edit| {
///     edit.add_last("timeout", timeout.clone())?;
///     Ok(())
/// })?;
/// channel.advance(Duration::from_secs(30));
/// let error = channel.read_error().unwrap();
/// assert!(matches!(error.find::<TimeoutError>(), Some(TimeoutError::Read { .. })));
/// assert!(!channel.channel().is_open());
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
pub struct ReadTimeout {
    limit: Duration,
    counts_pauses: bool,
    state: WatchState,
    reads: ReadActivity,
    timer: RearmingTimer,
}

/// The progress of a read timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WatchState {
    /// The channel is not active yet.
    #[default]
    Waiting,
    Watching,
    /// The limit was exceeded, or nothing more can come.
    Over,
}

impl ReadTimeout {
    /// Returns a handler with this limit.
    ///
    /// # Errors
    /// [`InvalidTimeout`]: the limit is zero.
    pub fn new(limit: Duration) -> Result<Self, InvalidTimeout> {
        InvalidTimeout::check("ReadTimeout", limit).map(|limit| Self::with(limit, false))
    }

    /// Counts time in which the channel itself does not read as silence of the peer: `auto_read` is off and no read is
    /// requested, or reads are paused because the channel is not writable. Default: that time does not count.
    #[must_use]
    pub fn counting_pauses(self) -> Self {
        Self::with(self.limit, true)
    }

    fn with(limit: Duration, counts_pauses: bool) -> Self {
        Self {
            limit,
            counts_pauses,
            state: WatchState::Waiting,
            reads: ReadActivity::default(),
            timer: RearmingTimer::default(),
        }
    }

    fn start(&mut self, ctx: &Ctx<'_>) {
        if self.state == WatchState::Waiting {
            self.state = WatchState::Watching;
            self.reads = ReadActivity::starting(ctx.now());
            if !self.counts_pauses {
                let _ = ctx.reading_since(); // Makes the channel record the time from now on.
            }
            self.timer.set(self.limit, ctx);
        }
    }

    fn stop(&mut self, ctx: &Ctx<'_>) {
        self.state = WatchState::Over;
        self.timer.cancel(ctx);
    }

    /// Returns since when the peer has been silent; `None` while it is not, or while the channel does not read.
    fn silent_since(&self, ctx: &Ctx<'_>) -> Option<Nanos> {
        let last = self.reads.last()?;
        if self.counts_pauses { Some(last) } else { ctx.reading_since().map(|read| read.max(last)) }
    }

    fn time_out(&mut self, ctx: &Ctx<'_>) {
        self.state = WatchState::Over;
        let error = Error::from(TimeoutError::read(ctx, self.limit));
        ctx.fire_error(error.clone());
        if !ctx.is_removed() {
            ctx.close_because(error);
        }
    }
}

impl Handler for ReadTimeout {
    fn interest(&self) -> Events {
        Events::ACTIVE
            | Events::INACTIVE
            | Events::READ
            | Events::READ_COMPLETE
            | Events::USER_EVENT
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

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(HalfClosed::Input) = event.get() {
            self.stop(ctx);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        self.timer.fired();
        // An inactive channel is closed, not silent; `on_inactive` follows.
        if self.state != WatchState::Watching || !ctx.is_active() {
            return Ok(());
        }
        match self.silent_since(ctx) {
            None => self.timer.set(self.limit, ctx),
            Some(since) if self.timer.is_due(since.plus(self.limit), ctx) => self.time_out(ctx),
            Some(_) => {}
        }
        Ok(())
    }
}

impl Clone for ReadTimeout {
    fn clone(&self) -> Self {
        Self::with(self.limit, self.counts_pauses)
    }
}

impl fmt::Debug for ReadTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadTimeout")
            .field("limit", &self.limit)
            .field("counts_pauses", &self.counts_pauses)
            .finish_non_exhaustive()
    }
}
