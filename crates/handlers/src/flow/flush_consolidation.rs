//! Several flushes as one write (C14).
//!
//! A channel consolidates the flushes of one call itself: three answers to one read are one write (rule 9 of
//! `docs/PIPELINE.md`). Calls of their own, such as those of other threads, of tasks and of timers, are one write each:
//! the channel cannot know whether another one follows. This handler holds their flushes until the loop's next turn.
//!
//! ```text
//!   thread 1   send a ─────► flush ─┐
//!   thread 2   send b ─────► flush ─┼─ held ──► the next turn, or the limit ──► one write of a b c
//!   a task     send c ─────► flush ─┘
//!   a read     answer d ───► flush ────────────► the end of the call, as without the handler
//! ```
//!
//! 1. A flush within a round of reads passes at once, so answers are not delayed. A slot of its own before this one
//!    marks the rounds (`RoundMarker`): this one would get flushes of a round only after the round (rule 2).
//! 2. Any other flush is held until a timer without delay fires, which is in the loop's next turn; or until the limit of
//!    held flushes is reached. While the channel is not writable every flush passes at once.
//! 3. A held flush passes before a close, disconnect, deregistration or shutdown of the output, and when the handler is
//!    removed. A close that does not pass the handlers cannot wait for it: after the end of the peer's data without
//!    half-closure, a failure, or at the end of the loop, messages whose flush is held fail as unflushed ones do.
//! 4. `ctx.flush_now()` of a handler after this one is held too.
//! 5. A handler before this one that passes messages on outside of a round, without `on_read_complete`, makes later
//!    flushes pass at once until the next round has ended.
//!
//! The price of a held flush is a turn of the loop: worth it where several come in a turn, and not for one at a time.

use std::cell::Cell;
use std::fmt;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Msg, Name, Signature, SlotId,
};

use crate::timeout::rearming_timer::RearmingTimer;

/// The default limit of held flushes, as in Netty.
pub const DEFAULT_MAX_FLUSHES: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Makes one write of many flushes that other threads, tasks and timers make within a turn of the loop. Flushes within a
/// round of reads pass at once.
///
/// A channel consolidates the flushes of one call without this handler; it is for channels to which several threads or
/// tasks write at a time. It adds a handler before itself, and takes it along when it is removed.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use waterwheel_handlers::FlushConsolidation;
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("flushes", FlushConsolidation::new())?;
///     Ok(())
/// })?;
/// for _ in 0..64 {
///     channel.channel().send(Bytes::from_static(b"tick")); // As from another thread.
/// }
/// channel.run();
/// channel.advance(Duration::ZERO); // The next turn.
/// assert_eq!(channel.writes(), 1);
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
pub struct FlushConsolidation {
    max_flushes: NonZeroUsize,
    /// The number of flushes that are held.
    held: usize,
    timer: RearmingTimer,
    /// True during a round of reads.
    in_round: Rc<Cell<bool>>,
    marker: Option<SlotId>,
}

impl FlushConsolidation {
    /// Returns a handler that holds at most [`DEFAULT_MAX_FLUSHES`] − 1 flushes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_flushes: DEFAULT_MAX_FLUSHES,
            held: 0,
            timer: RearmingTimer::default(),
            in_round: Rc::default(),
            marker: None,
        }
    }

    /// Sets the number of flushes that are made one, even if more follow in the same turn.
    #[must_use]
    pub fn max_flushes(mut self, max: NonZeroUsize) -> Self {
        self.max_flushes = max;
        self
    }

    /// Passes the held flushes on as one.
    fn release(&mut self, ctx: &Ctx<'_>) {
        if std::mem::take(&mut self.held) > 0 {
            ctx.flush();
        }
    }
}

impl Handler for FlushConsolidation {
    fn interest(&self) -> Events {
        Events::FLUSH
            | Events::CLOSE
            | Events::DISCONNECT
            | Events::DEREGISTER
            | Events::SHUTDOWN_OUTPUT
            | Events::INACTIVE
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let marker = RoundMarker(self.in_round.clone());
        self.marker = Some(ctx.pipeline().add_before(ctx.slot(), Name::auto(), marker)?);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.release(ctx);
        if let Some(marker) = self.marker.take() {
            // Refused while a closed channel removes its handlers: the marker is removed too.
            let _ = ctx.pipeline().remove_if_present(marker);
        }
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.held += 1;
        if self.in_round.get() || self.held >= self.max_flushes.get() || !ctx.is_writable() {
            self.release(ctx);
        } else if !self.timer.is_set() {
            self.timer.set(Duration::ZERO, ctx);
        }
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        self.timer.fired();
        self.release(ctx);
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.held = 0;
        self.timer.cancel(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.release(ctx);
        ctx.close_with(done.take());
        Ok(())
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.release(ctx);
        ctx.disconnect_with(done.take());
        Ok(())
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.release(ctx);
        ctx.deregister_with(done.take());
        Ok(())
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.release(ctx);
        ctx.shutdown_output_with(done.take());
        Ok(())
    }
}

impl Default for FlushConsolidation {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for FlushConsolidation {
    fn clone(&self) -> Self {
        Self::new().max_flushes(self.max_flushes)
    }
}

impl fmt::Debug for FlushConsolidation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlushConsolidation")
            .field("max_flushes", &self.max_flushes)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

/// Marks rounds of reads, until the handlers after it have handled their end.
struct RoundMarker(Rc<Cell<bool>>);

impl Handler for RoundMarker {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.set(true);
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.set(true);
        ctx.fire_read_complete();
        self.0.set(false);
        Ok(())
    }
}
