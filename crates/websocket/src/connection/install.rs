//! How the handlers of a connection are added to a pipeline.

use std::rc::Rc;

use waterwheel_channel::{Edit, HandlerResult};
use waterwheel_executor::Error;

use super::agreement::Agreement;
use super::context::WebSocketContext;
use super::decode_slot::DecodeSlot;
use super::encode_slot::EncodeSlot;
use super::handler::{CloseOutcome, WebSocketHandler};
use super::socket_state::SocketState;
use crate::protocol::message::WebSocketMessage;

/// The name of the two slots: `websocket/decoder` and `websocket/encoder`.
const NAME: &str = "websocket";

/// Adds the handlers of a connection whose messages a [`WebSocketHandler`] gets.
pub(crate) fn install_handler(
    edit: &mut Edit<'_>,
    agreement: Agreement,
    handler: impl WebSocketHandler,
) -> Result<(), Error> {
    let state = Rc::new(SocketState::new(agreement));
    let decoder = DecodeSlot::new(state.clone(), handler);
    edit.add_codec(NAME, decoder, EncodeSlot::new(state))?;
    Ok(())
}

/// Adds the handlers of a connection whose messages are fired, to handlers that are added after them.
pub(crate) fn install_pipeline(edit: &mut Edit<'_>, agreement: Agreement) -> Result<(), Error> {
    install_handler(edit, agreement, MessageForwarder)
}

/// Passes messages on to the next handler.
struct MessageForwarder;

impl WebSocketHandler for MessageForwarder {
    #[inline]
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        socket.ctx().fire_read(message);
        Ok(())
    }

    fn on_close(&mut self, socket: &WebSocketContext<'_>, outcome: &CloseOutcome) {
        match outcome {
            CloseOutcome::Received(reason) => {
                socket.ctx().fire_read(WebSocketMessage::Close(reason.clone()));
            }
            CloseOutcome::Failed(error) => socket.ctx().fire_error(Error::new(*error)),
            CloseOutcome::Lost => {}
        }
    }
}
