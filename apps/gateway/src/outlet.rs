//! The end of a client's pipeline that is on its loop: lines from the outbox go out here, and so does the
//! last one.
//!
//! ```text
//!            loop                                                    business thread
//!   socket ⇄ lines ⇄ idle ⇄ [ Outlet ] ⇄ [ Offloaded ] ⇄ Session
//!                               ▲ take
//!                            Outbox ◄── offer ── business threads of others
//! ```
//!
//! 1. Lines are taken out while the channel is writable. So what waits for a client waits in its outbox,
//!    where there is a limit and a policy, and not in the channel.
//! 2. While the channel is not writable nothing is read: a client that does not read its answers can ask
//!    nothing more.
//! 3. A client leaves in three steps: the lines that wait for it go out, and a last one; then the output is
//!    shut down, so that it reads the end behind the last line; then it is waited for until it has finished
//!    as well, or has sent nothing for a while. To close at once would be shorter, but what the client is sending
//!    meanwhile would make the kernel throw away what it has not read yet.
//! 4. While the loops drain the client is held until it has left.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel::channel::{
    Completion, Ctx, Draining, Events, HalfClosed, Handler, HandlerResult, Hold, Message, Msg,
    Signature,
};

use crate::client::{Deliver, TooSlow, locked};
use crate::outbox::{Entry, Outbox};
use crate::protocol::Answer;

/// How long a client that is leaving may take to read what waits for it.
const LEAVING: Duration = Duration::from_secs(10);

/// How long a client that has been sent everything may go on sending.
const LINGERING: Duration = Duration::from_secs(1);

/// How long a client that has been sent everything may be silent without finishing, like an `nc` whose terminal is
/// open. It loses nothing: it is not sending.
const SILENCE: Duration = Duration::from_millis(250);

/// The timers: the client had its time; has it said something meanwhile?
const TIME_IS_UP: u32 = 0;
const IS_SILENT: u32 = 1;

/// The client leaves, after this line: the last thing that its session writes.
#[derive(Clone, Debug)]
pub struct Farewell(pub String);

impl Message for Farewell {
    fn size_hint(&self) -> usize {
        self.0.len()
    }
}

/// Takes lines out of the outbox, on the client's loop.
#[derive(Debug)]
pub struct Outlet {
    outbox: Arc<Mutex<Outbox>>,
    state: State,
    /// Somebody wanted to read while the channel was not writable.
    wants_to_read: bool,
    hold: Option<Hold>,
    /// A line came since this was last looked at.
    heard: bool,
}

#[derive(Debug)]
enum State {
    Open,
    /// After what waits, this line.
    Leaving(String),
    /// The last line was written.
    Left,
}

impl Outlet {
    /// Of this outbox.
    #[must_use]
    pub fn new(outbox: Arc<Mutex<Outbox>>) -> Self {
        Self { outbox, state: State::Open, wants_to_read: false, hold: None, heard: false }
    }

    /// Writes what waits, as long as there is room. Where there is none, the channel tells when there is.
    fn deliver(&mut self, ctx: &Ctx<'_>) {
        let leaving = matches!(self.state, State::Leaving(_));
        while ctx.is_writable() {
            let entry = {
                let mut outbox = locked(&self.outbox);
                if leaving { outbox.take_or_close() } else { outbox.take() }
            };
            match entry {
                Some(Entry::Line(line)) => ctx.write(line),
                Some(Entry::Missed(lines)) => ctx.write(Answer::Missed(lines).to_string()),
                None => {
                    self.finish(ctx);
                    break;
                }
            }
        }
        ctx.flush();
    }

    /// Nothing waits. If the client is leaving, this is the end.
    fn finish(&mut self, ctx: &Ctx<'_>) {
        if let State::Leaving(last) = &mut self.state {
            ctx.write_and_flush(std::mem::take(last));
            ctx.shutdown_output();
            self.state = State::Left;
        }
    }

    fn read_on(&mut self, ctx: &Ctx<'_>) {
        if std::mem::take(&mut self.wants_to_read) {
            ctx.read();
        }
    }
}

impl Handler for Outlet {
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
        self.heard = true;
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<Deliver>() {
            self.deliver(ctx);
            return Ok(());
        }
        if event.is::<TooSlow>() {
            ctx.close();
            return Ok(());
        }
        if event.is::<Draining>() {
            self.hold = Some(ctx.hold());
        } else if event.get() == Some(&HalfClosed::Output) {
            self.heard = false;
            ctx.schedule(SILENCE, IS_SILENT);
            ctx.schedule(LINGERING, TIME_IS_UP);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if ctx.is_writable() {
            self.deliver(ctx);
            self.read_on(ctx);
        }
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        if tag == IS_SILENT && std::mem::take(&mut self.heard) {
            ctx.schedule(SILENCE, IS_SILENT);
        } else {
            ctx.close();
        }
        Ok(())
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.wants_to_read = true;
        if ctx.is_writable() || !matches!(self.state, State::Open) {
            self.read_on(ctx);
        }
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        match msg.take::<Farewell>() {
            Ok(Farewell(last)) => {
                self.state = State::Leaving(last);
                ctx.schedule(LEAVING, TIME_IS_UP);
                self.deliver(ctx);
                self.read_on(ctx);
                done.take().succeed();
            }
            Err(other) => ctx.write_with(other, done.take()),
        }
        Ok(())
    }
}
