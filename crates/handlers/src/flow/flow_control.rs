//! One message per read (K11).
//!
//! A decoder may find many messages in one read. Without auto-read the handlers after this one asked for one round, and
//! get one message of it; the others wait here, in order, for the reads that follow:
//!
//! ```text
//!   read() ──► the transport: a round ──► decoder ──► a b c │ a ──► on_read(a), on_read_complete
//!                                                           │ b c wait
//!   read() ─────────────────────────────────────────────────│ b ──► on_read(b), on_read_complete
//! ```
//!
//! 1. Without auto-read, each `read()` is answered by exactly one message and then `on_read_complete`; a handler may ask
//!    for the next in either of them. A `read()` while one is unanswered changes nothing. It reaches the transport only
//!    if nothing waits here. A round that brought no message requests the next one.
//! 2. With auto-read messages pass at once, and rounds end where the transport's do. When auto-read is turned on,
//!    everything that waits is passed on, and then reading begins; if it is turned off meanwhile, the rest waits again.
//! 3. Errors and the end of the peer's data (`HalfClosed::Input`) keep their place: they come after the messages that
//!    were decoded before them. Other user events pass at once.
//! 4. Nothing is lost: when the channel becomes inactive, or this handler is removed, everything that waits is passed on
//!    first, in order, whether requested or not.
//! 5. Added to an active channel without auto-read, the handler takes a read as requested: it cannot know whether one
//!    is.
//!
//! At most the messages of two rounds wait: a read is passed to the transport only when nothing waits, and then the
//! rest of the present round and the next one may come. A round is limited by `ChannelOptions::reads_per_round` and
//! `ReceiveSizes`, so a peer cannot make the queue grow, however much it sends. The handlers before this one decide how
//! many messages the bytes of a round become.

use std::collections::VecDeque;
use std::fmt;

use waterwheel_channel::{Ctx, Events, HalfClosed, Handler, HandlerResult, Msg, Signature};
use waterwheel_executor::Error;

/// Gives the handlers after it one message for each `read()`, if the channel does not read by itself. Add it after the
/// decoder, before a handler that must not get the next message before it is done with the last.
///
/// Each read is answered by one `on_read` and one `on_read_complete`. Messages that were decoded together wait here, in
/// order; with `auto_read` they pass at once.
///
/// ```
/// use waterwheel_channel::{ChannelOptions, Ctx, HandlerResult, In, InboundHandler};
/// use waterwheel_handlers::FlowControl;
/// use waterwheel_testkit::embedded::Embedded;
///
/// /// Makes several messages of one, as a decoder does.
/// struct Words;
///
/// impl InboundHandler for Words {
///     type In = &'static str;
///
///     fn on_read(&mut self, ctx: &Ctx<'_>, text: &'static str) -> HandlerResult {
///         text.split(' ').for_each(|word| ctx.fire_read(word.to_owned()));
///         Ok(())
///     }
/// }
///
/// let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
/// let mut channel = Embedded::builder().options(options).build(|edit| {
///     edit.add_last("words", In(Words))?;
///     edit.add_last("flow control", FlowControl::new())?;
///     Ok(())
/// })?;
/// channel.read();
/// channel.write_inbound("one at a time");
/// assert_eq!(channel.read_inbound::<String>().unwrap(), "one");
/// assert!(channel.read_inbound_any().is_none());
/// channel.read();
/// assert_eq!(channel.read_inbound::<String>().unwrap(), "at");
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Default)]
pub struct FlowControl {
    /// Events that wait for a read. The first one is a message.
    waiting: VecDeque<WaitingEvent>,
    /// True while a read is unanswered. Of no meaning with auto-read.
    is_wanted: bool,
    /// True if messages were passed on in the present round of the transport, with auto-read, and their
    /// `on_read_complete` is still to come.
    owes_completion: bool,
}

enum WaitingEvent {
    Message(Msg),
    Error(Error),
    /// The event that announces the end of the peer's data.
    InputOver(Msg),
}

/// The room that an empty queue keeps.
const KEPT_ROOM: usize = 32;

impl FlowControl {
    /// Returns a handler without messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers a read with this message.
    fn answer(&mut self, ctx: &Ctx<'_>, message: WaitingEvent) {
        self.is_wanted = false;
        pass(ctx, message);
        ctx.fire_read_complete();
    }

    /// Passes the events on that no message precedes.
    fn pass_events(&mut self, ctx: &Ctx<'_>) {
        while let Some(event) =
            self.waiting.pop_front_if(|event| !matches!(event, WaitingEvent::Message(_)))
        {
            pass(ctx, event);
        }
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEPT_ROOM);
        }
    }

    /// Passes everything on for as long as `may_continue`. Returns true if there was a message.
    fn release(&mut self, ctx: &Ctx<'_>, may_continue: impl Fn() -> bool) -> bool {
        let mut had_message = false;
        while may_continue()
            && let Some(event) = self.waiting.pop_front()
        {
            had_message |= matches!(event, WaitingEvent::Message(_));
            pass(ctx, event);
        }
        self.pass_events(ctx);
        had_message
    }

    /// Passes everything on, requested or not.
    fn release_all(&mut self, ctx: &Ctx<'_>) {
        self.is_wanted = false;
        if self.release(ctx, || true) {
            ctx.fire_read_complete();
        }
    }
}

fn pass(ctx: &Ctx<'_>, event: WaitingEvent) {
    match event {
        WaitingEvent::Message(msg) => ctx.fire_read(msg),
        WaitingEvent::Error(error) => ctx.fire_error(error),
        WaitingEvent::InputOver(event) => ctx.fire_user_event(event),
    }
}

impl Handler for FlowControl {
    fn interest(&self) -> Events {
        Events::READ
            | Events::READ_COMPLETE
            | Events::USER_EVENT
            | Events::ERROR
            | Events::INACTIVE
            | Events::BEGIN_READ
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.is_wanted = ctx.is_active() && !ctx.is_auto_read();
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.release_all(ctx);
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if ctx.is_auto_read() {
            self.is_wanted = false;
            if self.release(ctx, || ctx.is_auto_read()) {
                ctx.fire_read_complete();
            }
            if ctx.is_auto_read() {
                ctx.read();
            }
            return Ok(());
        }
        if let Some(message) = self.waiting.pop_front() {
            self.answer(ctx, message);
            self.pass_events(ctx);
        } else {
            self.is_wanted = true;
            ctx.read();
        }
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if self.waiting.is_empty() && ctx.is_auto_read() {
            (self.is_wanted, self.owes_completion) = (false, true);
            ctx.fire_read(msg);
        } else if self.waiting.is_empty() && self.is_wanted {
            self.answer(ctx, WaitingEvent::Message(msg));
        } else {
            // With auto-read, the `read()` that releases the messages before this one is on its way.
            self.waiting.push_back(WaitingEvent::Message(msg));
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if self.owes_completion || ctx.is_auto_read() {
            self.owes_completion = false;
            ctx.fire_read_complete();
        } else if self.is_wanted {
            ctx.read(); // The round has brought no message.
        }
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        if self.waiting.is_empty() {
            ctx.fire_error(error);
        } else {
            self.waiting.push_back(WaitingEvent::Error(error));
        }
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if !self.waiting.is_empty() && event.get() == Some(&HalfClosed::Input) {
            self.waiting.push_back(WaitingEvent::InputOver(event));
        } else {
            ctx.fire_user_event(event);
        }
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.release_all(ctx);
        ctx.fire_inactive();
        Ok(())
    }
}

impl fmt::Debug for FlowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowControl")
            .field("waiting", &self.waiting.len())
            .field("is_wanted", &self.is_wanted)
            .finish()
    }
}
