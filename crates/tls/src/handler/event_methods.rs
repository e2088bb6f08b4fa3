//! The events of a channel, as `TlsHandler` takes them.

use std::mem;

use bytes::{Bytes, BytesMut};
use waterwheel_channel::{
    ChannelError, Completion, Ctx, Events, HalfClosed, Handler, HandlerResult, Msg, PeerFinished,
    Signature, TypeTag,
};
use waterwheel_executor::Error;

use super::choice::ConfigChoice;
use super::options::OnCloseNotify;
use super::output_end::OutputEnd;
use super::{HandlerState, PeerEnd, TlsHandler, TlsRole, plaintext_queue, timers};
use crate::config::server::ServerTlsSource;
use crate::error::TlsError;
use crate::handshake::StopTls;
use crate::session::TlsSession;

impl Handler for TlsHandler {
    fn interest(&self) -> Events {
        Events::ALL.without(
            Events::REGISTERED
                | Events::UNREGISTERED
                | Events::BIND
                | Events::CONNECT
                | Events::DEREGISTER,
        )
    }

    fn signature(&self) -> Signature {
        const WRITES: &[TypeTag] =
            &[TypeTag::of::<Bytes>(), TypeTag::of::<BytesMut>(), TypeTag::of::<Vec<u8>>()];
        let bytes = TypeTag::list::<Bytes>();
        Signature::transparent().inbound(bytes, bytes).outbound(WRITES, bytes).answers(bytes)
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let session = match self.role.take() {
            Some(TlsRole::Server(config)) => match config.into_source() {
                ServerTlsSource::Fixed(config) => TlsSession::server(config),
                ServerTlsSource::Chosen(chooser) => {
                    self.choice = Some(Box::new(ConfigChoice::new(chooser)));
                    self.start_if_active(ctx);
                    return Ok(());
                }
            },
            Some(TlsRole::Client(config, name)) => TlsSession::client(&config, name),
            None => return Ok(()),
        };
        match session {
            Ok(session) => self.session = Some(session),
            Err(error) => {
                // A connection that was to be encrypted must not go on without TLS, whatever becomes of the error.
                let error = Error::from(TlsError::Configuration(error));
                ctx.close_because(error.clone());
                return Err(error);
            }
        }
        self.start_if_active(ctx);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.choice = None;
        if ctx.channel().is_open() {
            if self.state == HandlerState::Running && !self.is_output_plain {
                if let Some(session) = &mut self.session {
                    session.send_close_notify();
                }
                self.send_output(ctx);
            }
            let removed = Error::from(TlsError::Removed);
            self.plaintext.fail_all(ctx, &removed);
            self.after_stop.fail_all(ctx, &removed);
        } else {
            self.plaintext.fail_closed(ctx);
            self.after_stop.write_all(ctx);
        }
        if let Some(promise) = self.promise.take() {
            promise.set_failure(TlsError::Removed.into());
        }
        if self.is_stopping || self.options.on_close_notify == OnCloseNotify::StopTls {
            for bytes in self.behind_close_notify.drain(..).filter(|bytes| !bytes.is_empty()) {
                ctx.fire_read(bytes);
            }
        }
        self.pass_all_on(ctx);
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.start_if_active(ctx);
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let is_cut_off = self.state == HandlerState::Running && !self.closing.is_begun();
        if is_cut_off && !self.has_peer_closed() && !self.is_output_plain {
            let error = match self.is_established() {
                true => TlsError::Truncated,
                false => TlsError::HandshakeCutOff,
            };
            let error = Error::from(error);
            if let Some(promise) = self.promise.take() {
                promise.set_failure(error.clone());
            }
            if !self.has_transport_failed {
                ctx.fire_error(error);
            }
        }
        self.state = HandlerState::Stopped;
        self.limit_timer.cancel(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.into_bytes() {
            // A handshake does not go on behind our close_notify.
            Ok(_) if self.closing.is_begun() && !self.is_established() => {}
            // After a failure, and behind close_notify, the peer's bytes are ignored.
            Ok(bytes) if self.state == HandlerState::Running && !self.has_peer_closed() => {
                self.decrypt(ctx, bytes);
            }
            // Handlers before this one have fired several messages in one call.
            Ok(bytes) if !self.behind_close_notify.is_empty() => {
                self.behind_close_notify.push(bytes);
            }
            Ok(_) => {}
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let has_fired = mem::take(&mut self.reads.has_fired);
        if has_fired {
            self.reads.is_wanted = false;
        }
        let needs_more = !self.is_established() || (self.reads.is_wanted && !has_fired);
        if needs_more && self.state == HandlerState::Running && !ctx.is_auto_read() {
            ctx.read();
        }
        ctx.fire_read_complete_on_return();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get::<PeerEnd>().is_some_and(|end| end.0 == ctx.slot()) {
            self.on_peer_end(ctx);
            return Ok(());
        }
        if event.is::<StopTls>() {
            if self.state == HandlerState::Running && !mem::replace(&mut self.is_stopping, true) {
                self.plaintext.flush();
                self.end(ctx, OutputEnd::StopTls);
                self.pump(ctx);
            }
            return Ok(());
        }
        let is_input_over = event.get::<HalfClosed>() == Some(&HalfClosed::Input)
            || (event.is::<PeerFinished>() && self.is_choice_pending());
        if is_input_over && self.state == HandlerState::Running && !self.has_peer_closed() {
            // A close does not insist on the close_notify that it awaits, as in `on_inactive`.
            if self.closing.is_begun() {
                self.close_without_peer(ctx);
                return Ok(());
            }
            let is_established = self.is_established();
            self.fail(
                ctx,
                if is_established { TlsError::Truncated } else { TlsError::HandshakeCutOff },
            );
            return Ok(());
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.pump(ctx);
        ctx.fire_writability_changed();
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.has_transport_failed = true;
        ctx.fire_error(error);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        match tag {
            timers::HANDSHAKE_LIMIT
                if self.state == HandlerState::Running && !self.is_established() =>
            {
                let limit = self.options.handshake_timeout;
                self.fail(ctx, TlsError::HandshakeTimeout { limit });
            }
            timers::WRITTEN => {
                self.pump(ctx);
                self.limit_ends(ctx);
            }
            timers::CHOICE_MADE => self.on_choice_made(ctx),
            timers::CLOSE_NOTIFY_WRITTEN => self.on_close_notify_written(ctx),
            timers::CLOSE_LIMIT if self.state == HandlerState::Running => {
                let limit = self.options.close_timeout;
                self.fail(ctx, TlsError::CloseTimeout { limit });
            }
            _ => {}
        }
        Ok(())
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.reads.is_wanted = true;
        ctx.read();
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        if self.is_output_plain {
            ctx.write_with(msg, done.take());
            return Ok(());
        }
        let mut waiting = self.closing.requests.iter().chain(&self.ends);
        let refused = waiting.find_map(OutputEnd::write_error);
        if let Some(error) = refused {
            return Err(error);
        }
        if matches!(self.state, HandlerState::Failed | HandlerState::Stopped) {
            // The channel is being closed, by handlers that may hold the close back.
            return Err(ChannelError::Closed { cause: None }.into());
        }
        if self.is_stopping {
            self.after_stop.push(ctx, msg, done.take());
            return Ok(());
        }
        let bytes = into_bytes(msg)?;
        if let Some(error) = plaintext_queue::refusal(ctx, bytes.len()) {
            return Err(error.into());
        }
        self.plaintext.push(ctx, bytes, done.take());
        Ok(())
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if !self.is_output_plain {
            self.after_stop.flush();
            if !self.is_stopping {
                self.plaintext.flush();
            }
            self.encrypt(ctx);
        }
        ctx.flush();
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.end(ctx, OutputEnd::Close(done.take()));
        Ok(())
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.end(ctx, OutputEnd::Disconnect(done.take()));
        Ok(())
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.end(ctx, OutputEnd::ShutdownOutput(done.take()));
        Ok(())
    }
}

fn into_bytes(msg: Msg) -> Result<Bytes, TlsError> {
    let msg = match msg.into_bytes() {
        Ok(bytes) => return Ok(bytes),
        Err(msg) => msg,
    };
    let msg = match msg.take::<BytesMut>() {
        Ok(bytes) => return Ok(bytes.freeze()),
        Err(msg) => msg,
    };
    let unsupported = |msg: Msg| TlsError::UnsupportedMessage { message: msg.type_name() };
    msg.take::<Vec<u8>>().map(Bytes::from).map_err(unsupported)
}
