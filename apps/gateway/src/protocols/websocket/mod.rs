//! `/ws`: clients that speak JSON in the messages of WebSocket.

mod handler;
mod wire;

use std::sync::Arc;

use waterwheel::http::{IntoResponse, Request, Response};
use waterwheel::websocket::{DeflateOptions, WebSocketLimits, WebSocketOptions, WebSocketUpgrade};

use self::handler::WebSocketClient;
use super::http_api::answers::error_response;
use super::http_api::request::RequestFacts;
use super::options::ProtocolOptions;
use super::origin::check_origin;
use crate::client_protocol::ClientProtocol;
use crate::session::SessionStart;
use crate::session::core::GatewayCore;

/// Opens WebSocket connections.
#[derive(Clone)]
pub(super) struct WebSocketRoute {
    core: Arc<GatewayCore>,
    options: Arc<ProtocolOptions>,
    websocket: WebSocketOptions,
}

impl WebSocketRoute {
    /// Creates the route. A time limit of zero, which no connection can have, counts as a millisecond.
    pub(super) fn new(core: &Arc<GatewayCore>, options: &Arc<ProtocolOptions>) -> Self {
        let least = std::time::Duration::from_millis(1);
        let max_message = u64::try_from(core.limits().message_bytes).unwrap_or(u64::MAX);
        let mut websocket = WebSocketOptions::builder()
            .limits(WebSocketLimits::default().max_message(max_message))
            .ping_interval(options.ping_interval.max(least))
            .pong_timeout(options.ping_timeout.max(least))
            .close_timeout(options.close_timeout.max(least));
        if options.compression {
            websocket = websocket.deflate(DeflateOptions::default());
        }
        let websocket = websocket.build().unwrap_or_default();
        Self { core: core.clone(), options: options.clone(), websocket }
    }

    /// Answers a request: with status 101 if it is a valid opening handshake of a page that may use the gateway. What is wrong
    /// with the credential is told by the connection: a page does not see the status of a refused handshake.
    pub(super) fn open(&self, request: &Request) -> Response {
        if let Err(error) = check_origin(request, &self.options.allowed_origins) {
            self.core.counters().on_this_loop().count_refusal(error.code);
            return error_response(&error);
        }
        let upgrade = match WebSocketUpgrade::of(request, &self.websocket) {
            Ok(upgrade) => upgrade,
            Err(refused) => return refused.into_response(),
        };
        let facts = RequestFacts::of(request);
        let credential = facts.credential().map(|credential| credential.map(str::to_owned));
        let start = credential.map(|credential| SessionStart {
            protocol: ClientProtocol::WebSocket,
            peer: facts.peer(),
            credential,
            name: None,
        });
        let (core, options) = (self.core.clone(), self.options.clone());
        upgrade.initialise(move |edit| {
            edit.add_last("gateway", WebSocketClient::new(core, options, start))?;
            Ok(())
        })
    }
}
