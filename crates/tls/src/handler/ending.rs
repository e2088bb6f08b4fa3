//! The ends of TLS: the close_notify of the peer, the end of our output, closes, and TLS that stops in the middle of a
//! stream.
//!
//! ```text
//!   close, shutdown_output, StopTls ──► ends: wait for what is flushed ──► close_notify ──► passed on, or plain output
//!   close_notify of the peer ──► PeerEnd, behind the answers to its last data ──► close, half-closure, or the end of TLS
//! ```

use std::mem;

use bytes::Bytes;
use waterwheel_channel::{Completion, Ctx};

use super::options::OnCloseNotify;
use super::output_end::OutputEnd;
use super::{HandlerState, PeerEnd, TlsHandler, timers};
use crate::error::TlsError;
use crate::handshake::{TlsPeerClosed, TlsStopped};

impl TlsHandler {
    pub(super) fn on_peer_closed(&mut self, ctx: &Ctx<'_>, rest: Bytes) {
        if !self.is_established() {
            return self.fail(ctx, TlsError::HandshakeCutOff);
        }
        ctx.fire_user_event(TlsPeerClosed);
        if self.closing.is_begun() {
            return self.close_without_peer(ctx);
        }
        self.behind_close_notify.push(rest);
        self.reads.is_wanted = false;
        if mem::take(&mut self.reads.has_fired) {
            // Most handlers flush their answers at the end of a round of reads, which must come before the reaction.
            ctx.fire_read_complete();
        }
        ctx.pipeline().fire_user_event(PeerEnd(ctx.slot()));
    }

    pub(super) fn on_peer_end(&mut self, ctx: &Ctx<'_>) {
        let behind = mem::take(&mut self.behind_close_notify);
        let is_closing = self.closing.is_begun() || self.ends.iter().any(OutputEnd::is_close);
        if self.state != HandlerState::Running || is_closing {
            return;
        }
        if self.is_stopping || self.options.on_close_notify == OnCloseNotify::StopTls {
            return self.finish_stop(ctx, behind);
        }
        match self.options.on_close_notify {
            OnCloseNotify::HalfClose => ctx.shutdown_input(),
            _ => self.end(ctx, OutputEnd::Close(Completion::none())),
        }
    }

    /// The peer's direction has ended. Ends ours if that was not requested, and leaves the pipeline.
    pub(super) fn finish_stop(&mut self, ctx: &Ctx<'_>, behind: Vec<Bytes>) {
        self.limit_timer.cancel(ctx);
        self.state = HandlerState::Stopped;
        if !self.is_output_plain {
            self.plaintext.flush();
            if let Some(session) = &mut self.session {
                if let Err(error) = self.plaintext.pump_all(ctx, session) {
                    return self.fail(ctx, TlsError::Protocol(error));
                }
                session.send_close_notify();
            }
            self.begin_plain_output(ctx);
        }
        self.ends.retain(|end| !matches!(end, OutputEnd::StopTls));
        ctx.fire_user_event(TlsStopped);
        // A closed pipeline refuses the removal: its handlers are being removed anyway.
        let _ = ctx.pipeline().remove_if_present(ctx.slot());
        for bytes in behind.into_iter().filter(|bytes| !bytes.is_empty()) {
            ctx.fire_read(bytes);
        }
        for end in mem::take(&mut self.ends) {
            end.pass_on(ctx);
        }
    }

    /// Sends close_notify, and what was written to follow it.
    pub(super) fn begin_plain_output(&mut self, ctx: &Ctx<'_>) {
        self.send_output(ctx);
        self.is_output_plain = true;
        self.after_stop.write_all(ctx);
    }

    pub(super) fn end(&mut self, ctx: &Ctx<'_>, mut end: OutputEnd) {
        if !end.begin() {
            return; // Cancelled.
        }
        if self.state != HandlerState::Running {
            return end.pass_on(ctx);
        }
        if self.closing.is_begun() {
            return self.closing.requests.push(end);
        }
        self.ends.push(end);
        self.pass_on_ends(ctx);
        self.limit_ends(ctx);
    }

    /// Sets the limit of requests that wait for held messages: from now on to the next progress. In the handshake its
    /// own limit holds.
    pub(super) fn limit_ends(&mut self, ctx: &Ctx<'_>) {
        if !self.ends.is_empty() && self.is_established() {
            self.limit_timer.set(ctx, self.options.close_timeout, timers::CLOSE_LIMIT);
        }
    }

    pub(super) fn pass_on_ends(&mut self, ctx: &Ctx<'_>) {
        // TLS that has not begun cannot end: what follows would be sent in the clear.
        let awaits_handshake = matches!(self.ends.first(), Some(OutputEnd::StopTls));
        if self.ends.is_empty()
            || self.plaintext.has_flushed()
            || (awaits_handshake && !self.is_established())
        {
            return;
        }
        for end in mem::take(&mut self.ends) {
            if let Some(error) = end.write_error() {
                self.plaintext.fail_all(ctx, &error);
                self.after_stop.fail_all(ctx, &error);
            }
            if let Some(session) = &mut self.session {
                session.send_close_notify();
            }
            match end {
                OutputEnd::StopTls => {
                    self.begin_plain_output(ctx);
                    let limit = self.options.close_timeout;
                    self.limit_timer.set(ctx, limit, timers::CLOSE_LIMIT);
                }
                OutputEnd::ShutdownOutput(_) => {
                    self.write_close_notify(ctx);
                    end.pass_on(ctx);
                }
                OutputEnd::Close(_) | OutputEnd::Disconnect(_) => self.begin_close(ctx, end),
            }
        }
    }

    /// Writes the close_notify, and keeps the close until it is written. Later closes join the first.
    pub(super) fn begin_close(&mut self, ctx: &Ctx<'_>, close: OutputEnd) {
        let is_first = !self.closing.is_begun();
        if is_first {
            self.write_close_notify(ctx);
            self.closing.awaits_peer = self.options.awaits_close_notify
                && self.closing.is_sent
                && self.is_established()
                && !self.has_peer_closed();
        }
        self.closing.requests.push(close);
        let ready = self.closing.take_ready();
        if is_first && ready.is_empty() {
            self.limit_timer.set(ctx, self.options.close_timeout, timers::CLOSE_LIMIT);
        }
        self.pass_closes_on(ctx, ready);
    }

    /// Writes the close_notify, and whatever else the session has to say. If it was sent at the end of TLS,
    /// waits for it and what followed it.
    pub(super) fn write_close_notify(&mut self, ctx: &Ctx<'_>) {
        let is_plain = self.is_output_plain;
        let session = self.session.as_mut();
        if let Some(session) = session.filter(|session| session.has_output() || is_plain) {
            ctx.write(session.take_output());
            self.closing.is_sent = true;
            ctx.flush_now();
            if ctx.channel().pending_bytes() == 0 {
                self.closing.is_written = true;
                return;
            }
            // An empty message is done when everything before it is.
            let written = timers::call_back(ctx, timers::CLOSE_NOTIFY_WRITTEN);
            ctx.write_with(Bytes::new(), written);
            ctx.flush();
        }
    }

    pub(super) fn on_close_notify_written(&mut self, ctx: &Ctx<'_>) {
        self.closing.is_written = true;
        let ready = self.closing.take_ready();
        self.pass_closes_on(ctx, ready);
    }

    /// The peer's direction has ended: a close waits only for its own close_notify.
    pub(super) fn close_without_peer(&mut self, ctx: &Ctx<'_>) {
        self.closing.awaits_peer = false;
        let ready = self.closing.take_ready();
        self.pass_closes_on(ctx, ready);
    }

    pub(super) fn pass_closes_on(&mut self, ctx: &Ctx<'_>, closes: Vec<OutputEnd>) {
        if closes.is_empty() {
            return;
        }
        self.limit_timer.cancel(ctx);
        if self.state == HandlerState::Running {
            self.state = HandlerState::Stopped;
        }
        if let Some(promise) = self.promise.take() {
            promise.set_failure(TlsError::HandshakeCutOff.into());
        }
        self.choice = None;
        for close in closes {
            close.pass_on(ctx);
        }
    }
}
