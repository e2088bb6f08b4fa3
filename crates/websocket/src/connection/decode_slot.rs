//! The handler that reads: bytes become messages.

use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, Cumulation, Draining, Events, HalfClosed, Handler, HandlerResult, Msg, ReadPause,
    Signature, TypeTag, driver::SocketOption,
};
use waterwheel_executor::Error;

use super::context::WebSocketContext;
use super::handler::{CloseOutcome, WebSocketHandler};
use super::socket_state::SocketState;
use super::time_limits::{CLOSE_TIMER, KEEP_ALIVE_TIMER, KeepAlive, KeepAliveStep, PeerTimeout};
use crate::protocol::close::{CloseCode, CloseReason};
use crate::protocol::decoder::MessageDecoder;
use crate::protocol::error::{ProtocolError, SendError};
use crate::protocol::frame_head::WebSocketRole;
use crate::protocol::message::WebSocketMessage;
use crate::protocol::short_frame::ShortMemory;

/// Reads the messages of a connection for a [`WebSocketHandler`].
pub(super) struct DecodeSlot<H> {
    state: Rc<SocketState>,
    decoder: MessageDecoder,
    /// Bytes that were read while the channel was not writable.
    unread: Cumulation,
    /// Keeps the channel from reading more while there are some.
    pause: Option<ReadPause>,
    /// True if the peer's data has ended behind them.
    has_input_ended: bool,
    /// The last ping of a peer that does not read, which is answered when it does.
    unanswered: Option<Bytes>,
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
            pause: None,
            has_input_ended: false,
            unanswered: None,
            keep_alive: KeepAlive::new(),
            is_open: false,
            handler,
        }
    }

    /// Reads the messages in `bytes`, as far as the channel has room for what they cause.
    #[inline]
    fn read(&mut self, ctx: &Ctx<'_>, mut bytes: Bytes) {
        let mut memory = ShortMemory::new();
        while self.state.is_receiving() {
            let handled = match self.decoder.decode_short(&mut bytes, &mut memory) {
                Some(message) => {
                    let socket = WebSocketContext::new(ctx, &self.state);
                    self.handler.on_short_message(&socket, message)
                }
                None => match self.decoder.decode(&mut bytes) {
                    Ok(Some(message)) => self.on_message(ctx, message),
                    Ok(None) => return,
                    Err(error) => return self.on_violation(ctx, error),
                },
            };
            if let Err(error) = handled {
                self.on_handler_error(ctx, error);
            }
            if bytes.is_empty() {
                return;
            }
            if self.must_stop(ctx) {
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
            // What was sent goes before what the next handler answers.
            self.state.flush_round(ctx);
            ctx.fire_read(bytes);
        } else {
            self.unread.keep(bytes);
            self.pause.get_or_insert_with(|| ctx.pause_reads());
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
            WebSocketMessage::Ping(payload) => self.answer(ctx, payload.clone()),
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

    /// Answers a ping; the last one only while the peer does not read (RFC 6455, section 5.5.3).
    fn answer(&mut self, ctx: &Ctx<'_>, ping: Bytes) {
        if ctx.is_writable() {
            // Refused after a Close of this side only: then no answer is expected.
            let _ = self.state.send(ctx, WebSocketMessage::Pong(ping));
        } else {
            self.unanswered = Some(ping);
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
        // A message of the peer, or a drain, may come at any time: its answer behind a Close is no fault of the handler.
        if self.state.is_closing() && error.find() == Some(&SendError::Closing) {
            return;
        }
        self.handler.on_error(&WebSocketContext::new(ctx, &self.state), error);
        self.end(ctx, &CloseOutcome::Lost);
        self.state.fail(ctx, CloseCode::INTERNAL_ERROR.into());
    }

    /// Tells the handler, once, that no more messages come.
    fn end(&mut self, ctx: &Ctx<'_>, outcome: &CloseOutcome) {
        drop((self.unread.take(), self.pause.take(), self.unanswered.take()));
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
        let progress = self.state.progress(ctx);
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
        let progress = self.state.progress(ctx);
        if self.state.continues_close(progress) {
            ctx.schedule(limit, CLOSE_TIMER);
        } else if progress.pending > 0 {
            abort(ctx, PeerTimeout::Close(limit));
        } else {
            self.end(ctx, &CloseOutcome::Lost);
            self.state.close_channel(ctx);
        }
    }

    /// Reads what was kept while the channel was not writable.
    fn resume(&mut self, ctx: &Ctx<'_>) {
        if let Some(ping) = self.unanswered.take() {
            self.answer(ctx, ping);
        }
        let unread = self.unread.take();
        if unread.is_empty() {
            return;
        }
        self.read(ctx, unread);
        if self.pause.is_some() && !self.must_stop(ctx) {
            self.pause = None;
        }
        if !ctx.is_in_read_round() {
            self.complete_round(ctx);
        }
        if self.has_input_ended {
            self.on_input_end(ctx);
        }
    }

    fn complete_round(&mut self, ctx: &Ctx<'_>) {
        if self.is_open {
            self.call(ctx, H::on_read_complete);
        }
        self.state.flush_round(ctx);
        ctx.fire_read_complete();
    }

    /// Ends the connection if the peer has ended its data, once all of that was read.
    fn on_input_end(&mut self, ctx: &Ctx<'_>) {
        self.has_input_ended = true;
        if self.pause.is_some() {
            return;
        }
        self.end(ctx, &CloseOutcome::Lost);
        if self.state.is_receiving() {
            self.state.close_channel(ctx);
        }
        // Else the output ends with the last frame that the peer takes, and the channel with it.
    }

    /// Calls a method of this handler. If it panics, the peer is told, as far as it takes that at once: the channel is
    /// closed by the panic.
    #[inline]
    fn guarded(&mut self, ctx: &Ctx<'_>, f: impl FnOnce(&mut Self)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(self))) {
            self.end_with_panic(ctx, panic);
        }
    }

    #[cold]
    fn end_with_panic(&self, ctx: &Ctx<'_>, panic: Box<dyn Any + Send>) -> ! {
        self.state.fail(ctx, CloseCode::INTERNAL_ERROR.into());
        ctx.flush_now();
        resume_unwind(panic)
    }
}

/// Ends a connection whose peer is not to be waited for. Resets it: the kernel would hold what it has taken for as long
/// as the peer reads a byte at times.
fn abort(ctx: &Ctx<'_>, cause: PeerTimeout) {
    let resets = SocketOption::Linger(Some(Duration::ZERO));
    // Refused by transports that know no reset, which is no fault.
    ctx.channel().set_option(resets).on_complete(drop);
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

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        let unread = self.unread.take();
        self.guarded(ctx, |slot| slot.end(ctx, &CloseOutcome::Lost));
        self.state.leave(ctx);
        if !unread.is_empty() {
            ctx.fire_read(unread);
            ctx.fire_read_complete();
        }
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.is_open = true;
        self.keep_alive.note_heard(ctx.now());
        let interval = self.state.options().ping_interval;
        if interval != Duration::MAX {
            ctx.schedule(interval, KEEP_ALIVE_TIMER);
        }
        self.guarded(ctx, |slot| slot.call(ctx, |handler, socket| handler.on_open(socket)));
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
                self.keep_alive.note_heard(ctx.turn_start());
                if self.pause.is_some() {
                    // More of the round in which the channel has become unwritable.
                    let bytes = self.unread.append(bytes);
                    self.unread.keep(bytes);
                } else {
                    self.guarded(ctx, |slot| slot.read(ctx, bytes));
                }
            }
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    #[inline]
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.guarded(ctx, |slot| slot.complete_round(ctx));
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.guarded(ctx, |slot| {
            if slot.is_open {
                slot.call(ctx, H::on_writability_changed);
            }
            ctx.fire_writability_changed();
            if ctx.is_writable() && !ctx.is_removed() {
                slot.resume(ctx);
            }
        });
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        let is_drain = event.is::<Draining>();
        let is_end = event.get() == Some(&HalfClosed::Input);
        self.guarded(ctx, |slot| {
            slot.call(ctx, |handler, socket| handler.on_user_event(socket, event));
        });
        if is_drain {
            self.state.begin_close(ctx, Some(CloseCode::GOING_AWAY.into()));
        }
        if is_end {
            self.guarded(ctx, |slot| slot.on_input_end(ctx));
        }
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        // Nothing of the peer is missing behind its Close: many end TLS without a close_notify then.
        if !self.state.is_receiving() {
            return Ok(());
        }
        self.guarded(ctx, |slot| {
            slot.handler.on_error(&WebSocketContext::new(ctx, &slot.state), error);
        });
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        self.guarded(ctx, |slot| match tag {
            KEEP_ALIVE_TIMER => slot.check_keep_alive(ctx),
            CLOSE_TIMER => slot.check_close(ctx),
            tag if slot.is_open => slot.call(ctx, |handler, socket| handler.on_timer(socket, tag)),
            _ => {}
        });
        Ok(())
    }
}

impl<H> fmt::Debug for DecodeSlot<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeSlot").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}
