//! How a connection ends: with its last answer, with the client, in a drain, or in the middle of an answer.

use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::Ctx;
use waterwheel_executor::Error;

use super::connection::{DecodingProgress, ServerConnection};
use super::connection_flags::CodecPhase;
use crate::codec::messages::RequestRefused;
use crate::protocol::error::{Malformation, MessageError};

/// The tag of the timer that ends the wait for the client's end.
const LINGER_TIMER: u32 = 0;

impl ServerConnection {
    /// Begins no further requests; closes an idle connection.
    pub(super) fn on_drain(self: &Rc<Self>, ctx: &Ctx<'_>) {
        self.update(|flags| flags.is_draining = true);
        self.settle(ctx);
    }

    /// Notes that the client has finished sending: what is complete is answered.
    pub(super) fn on_input_over(self: &Rc<Self>, ctx: &Ctx<'_>) {
        self.update(|flags| flags.is_input_over = true);
        match self.flags().phase {
            CodecPhase::Open => self.settle(ctx),
            // The client has seen the end of the answers.
            CodecPhase::Closing => ctx.shutdown_output(),
            CodecPhase::Upgraded => {}
        }
    }

    /// Ends a connection that is open, if the client or a drain has it end now; returns true then.
    pub(super) fn end_if_over(self: &Rc<Self>, ctx: &Ctx<'_>, progress: DecodingProgress) -> bool {
        let flags = self.flags();
        let is_idle = self.requests.borrow().is_empty();
        let has_seen_all = flags.is_input_over && !progress.has_undecoded;
        let is_cut = has_seen_all && !progress.is_between && !flags.is_refused;
        if is_cut && (progress.is_in_body || is_idle) {
            self.refuse(ctx, Malformation::Truncated.into(), progress.is_head_method);
            return true;
        }
        if !is_idle || !(flags.is_draining || has_seen_all) {
            return false;
        }
        if flags.is_draining && ctx.channel().pending_bytes() == 0 {
            self.end();
            ctx.close();
        } else {
            self.begin_close(ctx);
        }
        true
    }

    /// Refuses the message that is being decoded: it is answered when all before it are.
    pub(super) fn refuse(self: &Rc<Self>, ctx: &Ctx<'_>, error: MessageError, is_head: bool) {
        self.update(|flags| flags.is_refused = true);
        let is_answerable = self.requests.borrow_mut().refuse(error, is_head);
        ctx.fire_user_event(RequestRefused(error));
        if self.flags().phase != CodecPhase::Open {
            return;
        }
        if is_answerable {
            self.answer_refused(ctx);
        } else {
            self.begin_close(ctx);
        }
    }

    /// Ends the connection after the answers that are written: the output at once, the input when the client has
    /// finished or had its time, so that no RST overtakes the last answer.
    pub(super) fn begin_close(&self, ctx: &Ctx<'_>) {
        self.end();
        // Recorded from the first call on.
        let _ = ctx.last_write();
        ctx.flush();
        ctx.shutdown_output();
        self.lingers_since.set(ctx.now());
        ctx.schedule(self.options.linger, LINGER_TIMER);
    }

    pub(super) fn on_timer(&self, ctx: &Ctx<'_>, tag: u32) {
        if tag != LINGER_TIMER {
            return;
        }
        let since = self.lingers_since.replace(ctx.now());
        // A client that reads slowly, but reads, gets the rest.
        if ctx.channel().pending_bytes() > 0 && ctx.last_write() >= Some(since) {
            ctx.schedule(self.options.linger, LINGER_TIMER);
        } else {
            ctx.close();
        }
    }

    /// Cuts the connection off in the middle of an answer: the client sees that it is not complete.
    pub(super) fn give_up(&self, ctx: &Ctx<'_>, error: Error) {
        self.end();
        ctx.flush();
        ctx.close_because(error);
    }

    /// Answers and decodes nothing more.
    pub(super) fn end(&self) {
        self.update(|flags| flags.phase = CodecPhase::Closing);
        self.requests.borrow_mut().clear();
        self.answer.set(None);
        drop((self.pause.take(), self.hold.take()));
    }

    /// Takes the bytes that were not decoded: the codec is removed.
    pub(super) fn take_unread(&self) -> Bytes {
        let unread = self.decoding.take().map(|mut decoding| decoding.take_unread());
        unread.filter(|_| self.flags().phase != CodecPhase::Closing).unwrap_or_default()
    }
}
