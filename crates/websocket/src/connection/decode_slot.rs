//! The handler that reads: bytes become messages.

use std::fmt;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, Cumulation, Draining, Events, HalfClosed, Handler, HandlerResult, Msg, Signature, TypeTag,
    driver::SocketOption,
};
use waterwheel_executor::Error;

use super::context::WebSocketContext;
use super::handler::{CloseOutcome, WebSocketHandler};
use super::socket_state::SocketState;
use super::time_limits::{
    CLOSE_TIMER, KEEP_ALIVE_TIMER, KeepAlive, KeepAliveStep, PeerProgress, PeerTimeout,
};
use crate::protocol::close::{CloseCode, CloseReason};
use crate::protocol::decoder::MessageDecoder;
use crate::protocol::error::ProtocolError;
use crate::protocol::frame_head::WebSocketRole;
use crate::protocol::message::WebSocketMessage;

/// Reads the messages of a connection for a [`WebSocketHandler`].
pub(super) struct DecodeSlot<H> {
    state: Rc<SocketState>,
    decoder: MessageDecoder,
    /// Bytes that were read while the channel was not writable.
    unread: Cumulation,
    keep_alive: KeepAlive,
    is_open: bool,
    handler: H,
}

impl<H: WebSocketHandler> DecodeSlot<H> {
    pub(super) fn new(state: Rc<SocketState>, handler: H) -> Self {
        let options = state.options();
        let mut decoder = MessageDecoder::new(state.agreement.role, options.limits);
        if options.gives_parts {
            decoder = decoder.parts();
        }
        if let Some(parameters) = &state.agreement.deflate {
            decoder = decoder.deflate(parameters);
        }
        Self {
            state,
            decoder,
            unread: Cumulation::default(),
            keep_alive: KeepAlive::new(),
            is_open: false,
            handler,
        }
    }

    /// Reads the messages in `bytes`, as far as the channel has room for what they cause.
    #[inline]
    fn read(&mut self, ctx: &Ctx<'_>, mut bytes: Bytes) {
        while self.state.is_receiving() {
            match self.decoder.decode(&mut bytes) {
                Ok(Some(message)) => {
                    if let Err(error) = self.on_message(ctx, message) {
                        self.on_handler_error(ctx, error);
                    }
                }
                Ok(None) => return,
                Err(error) => return self.on_violation(ctx, error),
            }
            if !bytes.is_empty() && self.must_stop(ctx) {
                return self.keep(ctx, bytes);
            }
        }
    }

    /// True if what was read is not to be decoded now.
    fn must_stop(&self, ctx: &Ctx<'_>) -> bool {
        let pauses = self.state.agreement.role == WebSocketRole::Server;
        ctx.is_removed() || (pauses && !ctx.is_writable())
    }

    #[cold]
    fn keep(&mut self, ctx: &Ctx<'_>, bytes: Bytes) {
        if ctx.is_removed() {
            ctx.fire_read(bytes);
        } else {
            self.unread.keep(bytes);
        }
    }

    #[inline]
    fn on_message(&mut self, ctx: &Ctx<'_>, message: WebSocketMessage) -> HandlerResult {
        let socket = WebSocketContext::new(ctx, &self.state);
        match message {
            WebSocketMessage::Ping(_) | WebSocketMessage::Pong(_) | WebSocketMessage::Close(_) => {
                self.on_control(ctx, message)
            }
            message => self.handler.on_message(&socket, message),
        }
    }

    fn on_control(&mut self, ctx: &Ctx<'_>, message: WebSocketMessage) -> HandlerResult {
        match &message {
            WebSocketMessage::Ping(payload) => {
                // Refused after a Close of this side only: then no answer is expected.
                let _ = self.state.send(ctx, WebSocketMessage::Pong(payload.clone()));
            }
            WebSocketMessage::Close(reason) => {
                let outcome = CloseOutcome::Received(reason.clone());
                // Before the answer, which ends the output.
                self.end(ctx, &outcome);
                self.state.on_peer_close(ctx, reason.as_ref());
                return Ok(());
            }
            _ => {}
        }
        match self.state.options().passes_control {
            true => self.handler.on_message(&WebSocketContext::new(ctx, &self.state), message),
            false => Ok(()),
        }
    }

    #[cold]
    fn on_violation(&mut self, ctx: &Ctx<'_>, error: ProtocolError) {
        self.end(ctx, &CloseOutcome::Failed(error));
        self.state.fail(ctx, CloseReason::new(error.close_code(), error.to_string()));
    }

    /// Reports the error of the handler, and closes the connection.
    #[cold]
    fn on_handler_error(&mut self, ctx: &Ctx<'_>, error: Error) {
        self.handler.on_error(&WebSocketContext::new(ctx, &self.state), error);
        self.end(ctx, &CloseOutcome::Lost);
        self.state.fail(ctx, CloseCode::INTERNAL_ERROR.into());
    }

    /// Tells the handler, once, that no more messages come.
    fn end(&mut self, ctx: &Ctx<'_>, outcome: &CloseOutcome) {
        drop(self.unread.take());
        if mem::take(&mut self.is_open) {
            self.handler.on_close(&WebSocketContext::new(ctx, &self.state), outcome);
        }
    }

    /// Calls the handler, and closes the connection if it fails.
    fn call(
        &mut self,
        ctx: &Ctx<'_>,
        f: impl FnOnce(&mut H, &WebSocketContext<'_>) -> HandlerResult,
    ) {
        let outcome = f(&mut self.handler, &WebSocketContext::new(ctx, &self.state));
        if let Err(error) = outcome {
            self.on_handler_error(ctx, error);
        }
    }

    fn check_keep_alive(&mut self, ctx: &Ctx<'_>) {
        if self.state.is_closing() {
            return;
        }
        let options = self.state.options();
        let (interval, timeout) = (options.ping_interval, options.pong_timeout);
        let progress = PeerProgress::of(ctx, self.state.written());
        match self.keep_alive.check(progress, interval, timeout) {
            KeepAliveStep::Wait(time) => {
                ctx.schedule(time, KEEP_ALIVE_TIMER);
            }
            KeepAliveStep::Ping => {
                // Refused after a Close only.
                let _ = self.state.send(ctx, WebSocketMessage::Ping(Bytes::new()));
                ctx.schedule(timeout, KEEP_ALIVE_TIMER);
            }
            KeepAliveStep::GiveUp => {
                self.end(ctx, &CloseOutcome::Lost);
                abort(ctx, PeerTimeout::Pong(timeout));
            }
        }
    }

    fn check_close(&mut self, ctx: &Ctx<'_>) {
        let limit = self.state.options().close_timeout;
        let progress = PeerProgress::of(ctx, self.state.written());
        if self.keep_alive.continues_close(progress) {
            ctx.schedule(limit, CLOSE_TIMER);
        } else if progress.pending > 0 {
            abort(ctx, PeerTimeout::Close(limit));
        } else {
            self.end(ctx, &CloseOutcome::Lost);
            self.state.close_channel(ctx);
        }
    }
}

/// Ends a connection whose peer is not to be waited for. Resets it: the kernel would hold what it has taken for as long
/// as the peer reads a byte at times.
fn abort(ctx: &Ctx<'_>, cause: PeerTimeout) {
    drop(ctx.channel().set_option(SocketOption::Linger(Some(Duration::ZERO))));
    ctx.abort(Error::new(cause));
}

impl<H: WebSocketHandler> Handler for DecodeSlot<H> {
    fn interest(&self) -> Events {
        Events::ACTIVE
            | Events::INACTIVE
            | Events::READ
            | Events::READ_COMPLETE
            | Events::USER_EVENT
            | Events::WRITABILITY_CHANGED
            | Events::ERROR
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
            .inbound(TypeTag::list::<Bytes>(), TypeTag::list::<WebSocketMessage>())
            .answers(TypeTag::list::<Bytes>())
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.state.set_decoder_slot(ctx);
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.state.release();
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.is_open = true;
        self.keep_alive.note_heard(ctx.now());
        let interval = self.state.options().ping_interval;
        if interval != Duration::MAX {
            ctx.schedule(interval, KEEP_ALIVE_TIMER);
        }
        self.call(ctx, |handler, socket| handler.on_open(socket));
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.end(ctx, &CloseOutcome::Lost);
        self.state.release();
        ctx.fire_inactive();
        Ok(())
    }

    #[inline]
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.into_bytes() {
            Ok(bytes) => {
                self.keep_alive.note_heard(ctx.now());
                let bytes = self.unread.append(bytes);
                self.read(ctx, bytes);
            }
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    #[inline]
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if self.is_open {
            self.call(ctx, H::on_read_complete);
        }
        self.state.flush_round(ctx);
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if self.is_open {
            self.call(ctx, H::on_writability_changed);
        }
        ctx.fire_writability_changed();
        if ctx.is_writable() {
            let unread = self.unread.take();
            if !unread.is_empty() {
                self.read(ctx, unread);
                if !ctx.is_in_read_round() {
                    self.on_read_complete(ctx)?;
                }
            }
        }
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        let is_drain = event.is::<Draining>();
        let is_end = event.get() == Some(&HalfClosed::Input);
        self.call(ctx, |handler, socket| handler.on_user_event(socket, event));
        if is_drain {
            self.state.begin_close(ctx, Some(CloseCode::GOING_AWAY.into()));
        }
        if is_end {
            // What follows a Close, or is missing after none.
            self.end(ctx, &CloseOutcome::Lost);
            self.state.close_channel(ctx);
        }
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.handler.on_error(&WebSocketContext::new(ctx, &self.state), error);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        match tag {
            KEEP_ALIVE_TIMER => self.check_keep_alive(ctx),
            CLOSE_TIMER => self.check_close(ctx),
            tag => self.call(ctx, |handler, socket| handler.on_timer(socket, tag)),
        }
        Ok(())
    }
}

impl<H> fmt::Debug for DecodeSlot<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeSlot").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}
