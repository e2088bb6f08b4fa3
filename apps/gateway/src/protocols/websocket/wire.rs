//! How a client of WebSocket is read and written to.

use std::sync::Arc;

use waterwheel::channel::{Ctx, Message, Msg};
use waterwheel::websocket::{BroadcastMessage, CloseCode, CloseReason, WebSocketMessage};

use crate::client_protocol::ClientProtocol;
use crate::error_code::{ErrorCode, GatewayError};
use crate::protocols::channel_client::{ClientWire, ClosingReason, WireAnswer};
use crate::protocols::json::commands::read_message;
use crate::protocols::json::encoding;
use crate::protocols::options::ProtocolOptions;
use crate::session::Session;
use crate::session::connection::CommandId;
use crate::session::core::GatewayCore;
use crate::session::delivery::Delivery;
use crate::session::reply::{GatewayReply, Push};

/// The number that is added to the code of an error for the code of a Close.
const CLOSE_CODE_BASE: u16 = 4_000;

/// JSON in texts.
pub(super) struct WebSocketWire {
    core: Arc<GatewayCore>,
    options: Arc<ProtocolOptions>,
}

impl WebSocketWire {
    pub(super) fn new(core: Arc<GatewayCore>, options: Arc<ProtocolOptions>) -> Self {
        Self { core, options }
    }
}

impl ClientWire for WebSocketWire {
    type Input = WebSocketMessage;

    const PROTOCOL: ClientProtocol = ClientProtocol::WebSocket;

    fn execute(&self, session: &Session, input: WebSocketMessage) {
        let commands = match input {
            WebSocketMessage::Text(text) => read_message(&text, self.core.limits()),
            _ => Err(GatewayError::new(
                ErrorCode::Malformed,
                "commands are messages of text; this one is binary",
            )),
        };
        match commands {
            Ok(commands) => {
                commands.into_iter().for_each(|each| session.execute(each.id, each.command));
            }
            Err(error) => session.execute(None, Err(error)),
        }
    }

    fn answer(
        &self,
        id: Option<CommandId>,
        answer: Result<&GatewayReply, &GatewayError>,
    ) -> WireAnswer {
        match encoding::answer(id, answer, self.options.ping_interval).map(text_message) {
            Some((message, bytes)) => WireAnswer::Message(message, bytes),
            None => WireAnswer::Nothing,
        }
    }

    fn push(&self, push: &Push) -> Option<(Msg, usize)> {
        Some(text_message(encoding::push(push)))
    }

    fn publication(&self, delivery: &Delivery) -> Msg {
        let encode = |publication: &_| BroadcastMessage::text(encoding::message(publication));
        delivery.websocket(encode).clone().into()
    }

    fn close(&self, ctx: &Ctx<'_>, reason: &ClosingReason) {
        let ClosingReason { error, may_reconnect } = reason;
        let push = Push::Closing { error: error.clone(), may_reconnect: *may_reconnect };
        ctx.write(text_message(encoding::push(&push)).0);
        let code = match error.code {
            ErrorCode::Closing => CloseCode::GOING_AWAY,
            code => {
                let number = CLOSE_CODE_BASE + code.number();
                CloseCode::new(number).unwrap_or(CloseCode::POLICY_VIOLATION)
            }
        };
        let reason = CloseReason::new(code, error.message.clone());
        ctx.write_and_flush(WebSocketMessage::Close(Some(reason)));
    }
}

fn text_message(text: String) -> (Msg, usize) {
    let message = WebSocketMessage::from(text);
    let bytes = message.size_hint();
    (message.into(), bytes)
}
