//! The handler that writes: messages become bytes.

use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Message, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use super::socket_state::SocketState;
use crate::protocol::broadcast::BroadcastMessage;
use crate::protocol::close::CloseCode;
use crate::protocol::error::SendError;
use crate::protocol::message::WebSocketMessage;

/// Writes the messages of the handlers after it, of other threads and of groups. Messages of other types pass.
pub(super) struct EncodeSlot {
    state: Rc<SocketState>,
}

impl EncodeSlot {
    pub(super) fn new(state: Rc<SocketState>) -> Self {
        Self { state }
    }
}

impl Handler for EncodeSlot {
    fn interest(&self) -> Events {
        Events::WRITE | Events::CLOSE | Events::SHUTDOWN_OUTPUT
    }

    fn signature(&self) -> Signature {
        let accepts =
            const { &[TypeTag::of::<WebSocketMessage>(), TypeTag::of::<BroadcastMessage>()] };
        Signature::transparent().outbound(accepts, TypeTag::list::<Bytes>())
    }

    #[inline]
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let msg = match msg.take::<BroadcastMessage>() {
            Ok(message) => {
                if !self.state.write_shared(ctx, &message, done)? {
                    self.state.write_encoded(ctx, message.size_hint(), done, |encoder, dst| {
                        encoder.encode_broadcast(&message, dst)
                    })?;
                }
                return Ok(());
            }
            Err(msg) => msg,
        };
        match msg.take::<WebSocketMessage>() {
            Ok(WebSocketMessage::Close(reason)) => {
                if self.state.is_closing() {
                    return Err(Error::new(SendError::Closing));
                }
                self.state.begin_close(ctx, reason);
                done.take().succeed();
                Ok(())
            }
            Ok(message) => {
                self.state.write_encoded(ctx, message.size_hint(), done, |encoder, dst| {
                    encoder.encode(message, dst)
                })?;
                Ok(())
            }
            Err(other) => {
                self.state.pass_on(ctx);
                ctx.write_with(other, done.take());
                Ok(())
            }
        }
    }

    /// Begins the closing handshake: the Close is the end of this side's messages.
    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.state.begin_close(ctx, Some(CloseCode::NORMAL.into()));
        done.take().succeed();
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        if !self.state.hold_close(ctx, done) {
            ctx.close_with(done.take());
        }
        Ok(())
    }
}
