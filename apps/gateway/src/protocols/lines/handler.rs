//! The handler of a client of lines.
//!
//! A client is disconnected in three steps: everything that waits and a last line are written; the output is shut down, so that
//! the client reads the end after that line; the channel is closed when the client has shut down its output too, or has sent
//! nothing for a while. Closing at once would lose lines: unread input makes the kernel send RST, and the client's kernel then
//! discards what the client has not read yet.

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Address, Ctx, Draining, Events, HalfClosed, Handler, HandlerResult, Hold, Msg, Signature,
    TypeTag,
};
use waterwheel::codec::{LineTooLong, LineUnfinished, NotUtf8};
use waterwheel::executor::Error;
use waterwheel::handlers::IdleEvent;

use super::text::{HELLO, PING};
use super::wire::{CLOSE_DEADLINE, LineInput, LineWire};
use crate::client_protocol::ClientProtocol;
use crate::error_code::{ErrorCode, GatewayError};
use crate::protocols::channel_client::ChannelClient;
use crate::protocols::options::ProtocolOptions;
use crate::session::SessionStart;
use crate::session::connection::ClientConnection;
use crate::session::core::{GatewayCore, closing};

/// How long a client may go on sending after everything was written to it.
const LINGER_LIMIT: Duration = Duration::from_secs(1);

/// A client that sends nothing for this long after everything was written to it is closed without waiting for its FIN, for
/// instance an `nc` on an open terminal. No RST follows, because there is no unread input.
const SILENCE_LIMIT: Duration = Duration::from_millis(250);

/// The tag of the timer that checks whether the client has been silent.
const SILENCE_CHECK: u32 = CLOSE_DEADLINE + 1;

/// Reads the lines of a client.
pub(super) struct LineClient {
    core: Arc<GatewayCore>,
    options: Arc<ProtocolOptions>,
    client: Option<Rc<ChannelClient<LineWire>>>,
    /// Makes a drain of the loop wait until the client is disconnected.
    hold: Option<Hold>,
    /// True if a line has come since the last silence check.
    has_new_line: bool,
}

impl LineClient {
    pub(super) fn new(core: &Arc<GatewayCore>, options: &Arc<ProtocolOptions>) -> Self {
        let (core, options) = (core.clone(), options.clone());
        Self { core, options, client: None, hold: None, has_new_line: false }
    }

    fn open(&mut self, ctx: &Ctx<'_>) {
        let wire = LineWire::new(&self.core);
        let client = ChannelClient::new(&self.core, &self.options, wire, ctx);
        let start = SessionStart {
            protocol: ClientProtocol::Lines,
            peer: peer_of(ctx),
            credential: None,
            name: None,
        };
        client.open_session(&self.core, start);
        if client.session().is_some() {
            client.send_notice(Bytes::from_static(HELLO.as_bytes()), HELLO.len());
        }
        self.client = Some(client);
    }

    fn end(&mut self) {
        self.hold = None;
        if let Some(client) = self.client.take() {
            client.release();
        }
    }

    fn on_input(&mut self, ctx: &Ctx<'_>, input: LineInput) {
        self.has_new_line = true;
        if let Some(client) = &self.client {
            client.on_input(ctx, input);
        }
    }
}

fn peer_of(ctx: &Ctx<'_>) -> Option<IpAddr> {
    match ctx.channel().peer_address() {
        Some(Address::Ip(address)) => Some(address.ip()),
        _ => None,
    }
}

/// Returns the error of a line that cannot be decoded; `None` for other errors.
fn line_error(error: &Error) -> Option<GatewayError> {
    let code = if error.find::<LineTooLong>().is_some() {
        ErrorCode::MessageTooLarge
    } else if error.find::<NotUtf8>().is_some() || error.find::<LineUnfinished>().is_some() {
        ErrorCode::Malformed
    } else {
        return None;
    };
    Some(GatewayError::new(code, error.to_string()))
}

impl Handler for LineClient {
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
            .inbound(TypeTag::list::<String>(), &[])
            .answers(TypeTag::list::<Bytes>())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.open(ctx);
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.end();
        ctx.fire_inactive();
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.end();
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.take::<String>() {
            Ok(line) => self.on_input(ctx, LineInput::Line(line)),
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if let Some(client) = &self.client {
            client.write_turn(ctx);
        }
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if let Some(client) = self.client.as_ref().filter(|_| ctx.is_writable()) {
            client.write_turn(ctx);
        }
        ctx.fire_writability_changed();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<Draining>() {
            self.hold = Some(ctx.hold());
            if let Some(client) = &self.client {
                client.close(closing(), true);
                client.write_turn(ctx);
            }
        } else if event.get() == Some(&HalfClosed::Input) {
            self.on_input(ctx, LineInput::End("end of input"));
        } else if event.get() == Some(&HalfClosed::Output) {
            self.has_new_line = false;
            ctx.schedule(SILENCE_LIMIT, SILENCE_CHECK);
            ctx.schedule(LINGER_LIMIT, CLOSE_DEADLINE);
        } else if let Some(idle) = event.get::<IdleEvent>() {
            match (&self.client, idle.first) {
                (Some(client), true) => {
                    client.send_notice(Bytes::from_static(PING.as_bytes()), PING.len());
                }
                // Not behind commands that wait: those of a client that does not read wait for ever.
                (Some(client), false) => {
                    let error = GatewayError::new(ErrorCode::Closing, "idle for too long");
                    client.close(error, true);
                }
                (None, _) => {}
            }
        }
        ctx.fire_user_event(event);
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

    /// Answers a line that cannot be decoded; decoding goes on with the next one. A connection that breaks off is not
    /// reported.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        match line_error(&error) {
            Some(error) => self.on_input(ctx, LineInput::Error(error)),
            None if error.is_connection_lost() => {}
            None => ctx.fire_error(error),
        }
        Ok(())
    }
}

impl Drop for LineClient {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for LineClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineClient").finish_non_exhaustive()
    }
}
