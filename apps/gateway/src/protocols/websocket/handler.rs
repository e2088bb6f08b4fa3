//! The handler of a client of WebSocket.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use waterwheel::channel::{Ctx, Draining, Events, Handler, HandlerResult, Msg, Signature, TypeTag};
use waterwheel::executor::Error;
use waterwheel::websocket::{BroadcastMessage, ProtocolError, WebSocketMessage};

use super::wire::WebSocketWire;
use crate::error_code::{ErrorCode, GatewayError};
use crate::protocols::channel_client::{ChannelClient, ClientWire};
use crate::protocols::options::ProtocolOptions;
use crate::session::SessionStart;
use crate::session::connection::ClientConnection;
use crate::session::core::{GatewayCore, closing};
use crate::session::reply::Push;

/// Reads the messages of a client, behind the handlers of WebSocket.
///
/// The type is a handler of the pipeline, and no `WebSocketHandler`: a session writes when no message has come, too, and needs the
/// context of a place behind the encoder.
pub(super) struct WebSocketClient {
    core: Arc<GatewayCore>,
    options: Arc<ProtocolOptions>,
    /// The facts of the session, or what is wrong with the credential; taken when the connection opens.
    start: Option<Result<SessionStart, GatewayError>>,
    client: Option<Rc<ChannelClient<WebSocketWire>>>,
}

impl WebSocketClient {
    pub(super) fn new(
        core: Arc<GatewayCore>,
        options: Arc<ProtocolOptions>,
        start: Result<SessionStart, GatewayError>,
    ) -> Self {
        Self { core, options, start: Some(start), client: None }
    }

    fn open(&mut self, ctx: &Ctx<'_>) {
        let Some(start) = self.start.take() else { return };
        let wire = WebSocketWire::new(self.core.clone(), self.options.clone());
        let client = ChannelClient::new(&self.core, &self.options, wire, ctx);
        match start {
            Ok(start) => client.open_session(&self.core, start),
            Err(error) => client.close(error, false),
        }
        self.client = Some(client);
    }

    fn end(&mut self) {
        if let Some(client) = self.client.take() {
            client.release();
        }
    }
}

impl Handler for WebSocketClient {
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
        let answers =
            const { &[TypeTag::of::<WebSocketMessage>(), TypeTag::of::<BroadcastMessage>()] };
        Signature::transparent().inbound(TypeTag::list::<WebSocketMessage>(), &[]).answers(answers)
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
        match (msg.take::<WebSocketMessage>(), &self.client) {
            // The client has ended the connection: the session ends with it.
            (Ok(WebSocketMessage::Close(_)), _) => self.end(),
            (Ok(message), Some(client)) => client.on_input(ctx, message),
            (Ok(_), None) => {}
            (Err(other), _) => ctx.fire_read(other),
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
        if event.is::<Draining>()
            && let Some(client) = &self.client
        {
            // Before the handler of WebSocket closes by itself.
            client.close(closing(), true);
            client.write_turn(ctx);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    /// A violation of the protocol is told to the client as every other end; peers do that at any time, so it is not
    /// reported. Neither is a connection that breaks off.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        if let Some(violation) = error.find::<ProtocolError>() {
            if let Some(client) = &self.client {
                let error = GatewayError::new(ErrorCode::Malformed, violation.to_string());
                let closing = Push::Closing { error, may_reconnect: true };
                client.write_all(ctx);
                if let Some((message, _)) = client.wire().push(&closing) {
                    ctx.write(message);
                }
            }
            self.end();
        } else if !error.is_connection_lost() {
            ctx.fire_error(error);
        }
        Ok(())
    }
}

impl Drop for WebSocketClient {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for WebSocketClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketClient").finish_non_exhaustive()
    }
}
