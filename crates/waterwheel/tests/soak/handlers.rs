//! The handlers of the servers.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use waterwheel::channel::{
    Ctx, Datagram, Draining, FileRegion, HalfClosed, Handler, HandlerResult, Hold, InboundHandler,
    Msg, RemoteCtx, RemoteHandler,
};
use waterwheel::executor::Error;
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::ledger::Ledger;
use crate::reports::{Cause, Reports};

/// The first byte of a client that listens until the end. What others send is answered too, but is in no
/// ledger.
pub(crate) const CAREFUL: u8 = b'c';

/// The first byte of a client that may break off.
pub(crate) const CARELESS: u8 = b'x';

/// Sends back what it gets, reads no more than it gets rid of, and ends when its peer does.
///
/// When its loop drains it sends what it has, says that this was all, and stays until the peer goes: one that
/// closed a connection with something unread would reset it, and take back answers that are under way.
pub(crate) struct Echo {
    ledger: Arc<Ledger>,
    careful: Option<bool>,
    leaving: Option<Hold>,
}

impl Echo {
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Self {
        Self { ledger: ledger.clone(), careful: None, leaving: None }
    }
}

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.into_bytes().expect("bytes are sent here");
        if self.leaving.is_some() {
            return Ok(()); // It was told so.
        }
        let careful = *self.careful.get_or_insert_with(|| bytes[0] == CAREFUL);
        let (len, ledger) = (bytes.len(), self.ledger.clone());
        if careful {
            ledger.accepted(len);
        }
        ctx.write_then(bytes, move |written| {
            if careful && written.is_ok() {
                ledger.answered(len);
            }
        });
        self.ledger.pending(ctx.channel().pending_bytes());
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.channel().set_auto_read(ctx.is_writable());
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<Draining>() {
            self.leaving = Some(ctx.hold());
            ctx.shutdown_output();
        } else if event.get::<HalfClosed>() == Some(&HalfClosed::Input) {
            ctx.shutdown_output();
        }
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, _: Error) -> HandlerResult {
        ctx.close(); // A peer may go as it likes.
        Ok(())
    }
}

/// Sends back what it gets, from another executor.
pub(crate) struct Far(pub(crate) Arc<Ledger>);

impl RemoteHandler for Far {
    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        let len = msg.size_hint();
        self.0.accepted(len);
        let ledger = self.0.clone();
        let mut written = ctx.write_future(msg);
        written.add_listener(move |written| {
            if written.is_ok() {
                ledger.answered(len);
            }
        });
        ctx.flush();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
        if event.get::<HalfClosed>() == Some(&HalfClosed::Input) {
            ctx.shutdown_output();
        }
        Ok(())
    }
}

/// Sends a file, and that was all.
pub(crate) struct SendFile(pub(crate) Arc<File>);

impl Handler for SendFile {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(FileRegion::whole(self.0.clone())?);
        ctx.shutdown_output();
        Ok(())
    }
}

/// Reads nothing at first, then everything, and tells at the end how much that was.
pub(crate) struct Sink(pub(crate) u64);

/// So long it does not read.
const RELUCTANCE: Duration = Duration::from_millis(20);

impl Handler for Sink {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.schedule(RELUCTANCE, 0);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        ctx.channel().set_auto_read(true);
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0 += msg.size_hint() as u64;
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get::<HalfClosed>() == Some(&HalfClosed::Input) {
            ctx.write_and_flush(Bytes::copy_from_slice(&self.0.to_be_bytes()));
            ctx.shutdown_output();
        }
        Ok(())
    }
}

/// Writes as long as there is room, to whoever listens or not, and tells when it is closed.
pub(crate) struct ReportThrottle {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) closed: Sender<()>,
}

impl ReportThrottle {
    fn pour(&self, ctx: &Ctx<'_>) {
        while ctx.is_writable() {
            ctx.write(Bytes::from_static(&[7; 8 * 1024]));
            ctx.flush();
        }
        self.ledger.pending(ctx.channel().pending_bytes());
    }
}

impl Handler for ReportThrottle {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.pour(ctx);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.pour(ctx);
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        let _ = self.closed.send(()); // The world may be at its end.
        Ok(())
    }
}

/// Panics.
pub(crate) struct Fragile;

impl Handler for Fragile {
    fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
        panic_quietly("on purpose");
    }
}

/// Holds its loop until the watchdog has told of it, then sends back what it got.
pub(crate) struct Slow(pub(crate) Arc<Reports>);

impl Handler for Slow {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.wait_beyond(Cause::Held, self.0.count(Cause::Held));
        ctx.write_and_flush(msg);
        Ok(())
    }
}

/// Answers every datagram with its own bytes, backwards.
pub(crate) struct Backwards;

impl InboundHandler for Backwards {
    type In = Datagram;

    fn on_read(&mut self, ctx: &Ctx<'_>, question: Datagram) -> HandlerResult {
        let mut answer = BytesMut::from(&question.bytes()[..]);
        answer.reverse();
        ctx.write_and_flush(question.answer(answer));
        Ok(())
    }

    /// Who has asked may be gone.
    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// Passes everything on, and may be anywhere.
pub(crate) struct Pass;

impl Handler for Pass {}
