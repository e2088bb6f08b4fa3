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

use crate::byte_counts::ByteCounts;
use crate::reports::{Cause, ReportCounts};

/// The first byte sent by a client that receives until the end of the stream. Only the bytes of such clients are
/// counted.
pub(crate) const CHECKED: u8 = b'c';

/// The first byte sent by a client that may close or reset the connection at any time.
pub(crate) const UNCHECKED: u8 = b'x';

/// Echoes bytes, stops reading while its channel is unwritable, and shuts down its output when the peer does.
///
/// When its loop drains, the handler flushes, shuts down its output and holds the channel open until the peer closes: a
/// close with unread input would send RST, and the peer would lose echoed bytes that are under way.
pub(crate) struct Echo {
    byte_counts: Arc<ByteCounts>,
    is_checked: Option<bool>,
    drain_hold: Option<Hold>,
}

impl Echo {
    pub(crate) fn new(byte_counts: &Arc<ByteCounts>) -> Self {
        Self { byte_counts: byte_counts.clone(), is_checked: None, drain_hold: None }
    }
}

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.into_bytes().expect("the message is bytes");
        if self.drain_hold.is_some() {
            return Ok(()); // The output is shut down, so the client knows that this is not answered.
        }
        let is_checked = *self.is_checked.get_or_insert_with(|| bytes[0] == CHECKED);
        let (len, byte_counts) = (bytes.len(), self.byte_counts.clone());
        if is_checked {
            byte_counts.add_accepted(len);
        }
        ctx.write_then(bytes, move |written| {
            if is_checked && written.is_ok() {
                byte_counts.add_answered(len);
            }
        });
        self.byte_counts.record_pending(ctx.channel().pending_bytes());
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
            self.drain_hold = Some(ctx.hold());
            ctx.shutdown_output();
        } else if event.get::<HalfClosed>() == Some(&HalfClosed::Input) {
            ctx.shutdown_output();
        }
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, _: Error) -> HandlerResult {
        ctx.close(); // Resets by the peer are expected.
        Ok(())
    }
}

/// Echoes bytes from another executor (offloaded handler).
pub(crate) struct OffloadedEcho(pub(crate) Arc<ByteCounts>);

impl RemoteHandler for OffloadedEcho {
    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        let len = msg.size_hint();
        self.0.add_accepted(len);
        let byte_counts = self.0.clone();
        let mut written = ctx.write_future(msg);
        written.add_listener(move |written| {
            if written.is_ok() {
                byte_counts.add_answered(len);
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

/// Sends a file, then shuts down the output.
pub(crate) struct FileSender(pub(crate) Arc<File>);

impl Handler for FileSender {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(FileRegion::whole(self.0.clone())?);
        ctx.shutdown_output();
        Ok(())
    }
}

/// Starts to read after [`READ_DELAY`], and answers the end of the stream with the number of bytes read.
pub(crate) struct SlowSink(pub(crate) u64);

/// Time before [`SlowSink`] starts to read.
const READ_DELAY: Duration = Duration::from_millis(20);

impl Handler for SlowSink {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.schedule(READ_DELAY, 0);
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

/// Writes whenever its channel is writable, and sends a message when the channel is closed.
pub(crate) struct FloodWriter {
    pub(crate) byte_counts: Arc<ByteCounts>,
    pub(crate) closed: Sender<()>,
}

impl FloodWriter {
    fn fill_outbound(&self, ctx: &Ctx<'_>) {
        while ctx.is_writable() {
            ctx.write(Bytes::from_static(&[7; 8 * 1024]));
            ctx.flush();
        }
        self.byte_counts.record_pending(ctx.channel().pending_bytes());
    }
}

impl Handler for FloodWriter {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.fill_outbound(ctx);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.fill_outbound(ctx);
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        let _ = self.closed.send(()); // The receiver is gone at the end of the run.
        Ok(())
    }
}

/// Panics at the first read.
pub(crate) struct PanickingHandler;

impl Handler for PanickingHandler {
    fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
        panic_quietly("on purpose");
    }
}

/// Blocks its loop until the watchdog has reported it, then echoes the message.
pub(crate) struct LoopBlocker(pub(crate) Arc<ReportCounts>);

impl Handler for LoopBlocker {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.wait_for_more(Cause::SlowHandler, self.0.count(Cause::SlowHandler));
        ctx.write_and_flush(msg);
        Ok(())
    }
}

/// Answers every datagram with its own bytes in reverse order.
pub(crate) struct ReversingResponder;

impl InboundHandler for ReversingResponder {
    type In = Datagram;

    fn on_read(&mut self, ctx: &Ctx<'_>, question: Datagram) -> HandlerResult {
        let mut answer = BytesMut::from(&question.bytes()[..]);
        answer.reverse();
        ctx.write_and_flush(question.answer(answer));
        Ok(())
    }

    /// Ignores errors: the sender's socket may be closed (ECONNREFUSED).
    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// Forwards every event.
pub(crate) struct PassThrough;

impl Handler for PassThrough {}
