//! The handler that writes a client's outbox to its channel and disconnects the client, on the client's loop.
//!
//! ```text
//!            loop                                                    business thread
//!   socket ⇄ lines ⇄ idle ⇄ [ OutboxWriter ] ⇄ [ Offloaded ] ⇄ Session
//!                               ▲ take
//!                            Outbox ◄── offer ── business threads of others
//! ```
//!
//! 1. Lines are written while the channel is writable. Lines for a slow client therefore stay in its outbox, which
//!    has a limit and a policy, and not in the channel.
//! 2. Reading stops while the channel is not writable: a client that does not read its replies cannot send more
//!    commands.
//! 3. A client is disconnected in three steps: the queued lines and a final one are written; the output is shut down,
//!    so that the client reads EOF after the final line; the channel is closed when the client has shut down its
//!    output too, or has sent nothing for a while. Closing at once would lose lines: unread input makes the kernel
//!    send RST, and the client's kernel then discards what the client has not read yet.
//! 4. While the loops drain, the writer holds the channel open until the client is disconnected.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel::channel::{
    Completion, Ctx, Draining, Events, HalfClosed, Handler, HandlerResult, Hold, Message, Msg,
    Signature,
};

use crate::client::{DisconnectSlowClient, OutboxReady, locked};
use crate::outbox::{Outbox, OutboxEntry};
use crate::protocol::Reply;

/// Time limit for writing the queued lines of a client that is being disconnected.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);

/// How long a client may go on sending after everything was written to it.
const LINGER_LIMIT: Duration = Duration::from_secs(1);

/// A client that sends nothing for this long after everything was written to it is closed without waiting for its
/// FIN, for instance an `nc` on an open terminal. No RST follows, because there is no unread input.
const SILENCE_LIMIT: Duration = Duration::from_millis(250);

/// Tags of the timers: the deadline for the close, and the check whether the client has been silent.
const CLOSE_DEADLINE: u32 = 0;
const SILENCE_CHECK: u32 = 1;

/// The last line that a session writes; the client is disconnected after it.
#[derive(Clone, Debug)]
pub struct FinalLine(pub String);

impl Message for FinalLine {
    fn size_hint(&self) -> usize {
        self.0.len()
    }
}

/// Writes the outbox of a client.
#[derive(Debug)]
pub struct OutboxWriter {
    outbox: Arc<Mutex<Outbox>>,
    state: WriterState,
    /// True if a read was requested while the channel was not writable.
    has_pending_read: bool,
    hold: Option<Hold>,
    /// True if a line arrived since the last silence check.
    has_new_line: bool,
}

#[derive(Debug)]
enum WriterState {
    Open,
    /// The queued lines are being written; this line comes last.
    Closing(String),
    /// The last line was written and the output shut down.
    OutputClosed,
}

impl OutboxWriter {
    /// Creates the writer of this outbox.
    #[must_use]
    pub fn new(outbox: Arc<Mutex<Outbox>>) -> Self {
        Self {
            outbox,
            state: WriterState::Open,
            has_pending_read: false,
            hold: None,
            has_new_line: false,
        }
    }

    /// Writes queued lines while the channel is writable. `on_writability_changed` continues later.
    fn write_queued(&mut self, ctx: &Ctx<'_>) {
        let is_closing = matches!(self.state, WriterState::Closing(_));
        while ctx.is_writable() {
            let entry = {
                let mut outbox = locked(&self.outbox);
                if is_closing { outbox.take_or_close() } else { outbox.take() }
            };
            match entry {
                Some(OutboxEntry::Line(line)) => ctx.write(line),
                Some(OutboxEntry::Missed(lines)) => ctx.write(Reply::Missed(lines).to_string()),
                None => {
                    self.finish_closing(ctx);
                    break;
                }
            }
        }
        ctx.flush();
    }

    /// Called when the outbox is empty: writes the last line and shuts down the output if the client is being
    /// disconnected.
    fn finish_closing(&mut self, ctx: &Ctx<'_>) {
        if let WriterState::Closing(last) = &mut self.state {
            ctx.write_and_flush(std::mem::take(last));
            ctx.shutdown_output();
            self.state = WriterState::OutputClosed;
        }
    }

    fn resume_reading(&mut self, ctx: &Ctx<'_>) {
        if std::mem::take(&mut self.has_pending_read) {
            ctx.read();
        }
    }
}

impl Handler for OutboxWriter {
    fn interest(&self) -> Events {
        Events::READ
            | Events::USER_EVENT
            | Events::WRITABILITY_CHANGED
            | Events::WRITE
            | Events::BEGIN_READ
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.has_new_line = true;
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<OutboxReady>() {
            self.write_queued(ctx);
            return Ok(());
        }
        if event.is::<DisconnectSlowClient>() {
            ctx.close();
            return Ok(());
        }
        if event.is::<Draining>() {
            self.hold = Some(ctx.hold());
        } else if event.get() == Some(&HalfClosed::Output) {
            self.has_new_line = false;
            ctx.schedule(SILENCE_LIMIT, SILENCE_CHECK);
            ctx.schedule(LINGER_LIMIT, CLOSE_DEADLINE);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if ctx.is_writable() {
            self.write_queued(ctx);
            self.resume_reading(ctx);
        }
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        if tag == SILENCE_CHECK && std::mem::take(&mut self.has_new_line) {
            ctx.schedule(SILENCE_LIMIT, SILENCE_CHECK);
        } else {
            ctx.close();
        }
        Ok(())
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.has_pending_read = true;
        if ctx.is_writable() || !matches!(self.state, WriterState::Open) {
            self.resume_reading(ctx);
        }
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        match msg.take::<FinalLine>() {
            Ok(FinalLine(last)) => {
                self.state = WriterState::Closing(last);
                ctx.schedule(FLUSH_LIMIT, CLOSE_DEADLINE);
                self.write_queued(ctx);
                self.resume_reading(ctx);
                done.take().succeed();
            }
            Err(other) => ctx.write_with(other, done.take()),
        }
        Ok(())
    }
}
