//! The handler that writes: messages become bytes.

use std::any::Any;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Message, Msg, Signature, TypeTag,
};

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

    /// Writes a message, in the form of this connection.
    #[inline]
    fn write_broadcast(
        &self,
        ctx: &Ctx<'_>,
        message: &BroadcastMessage,
        done: &mut Completion,
    ) -> Result<(), SendError> {
        if self.state.write_shared(ctx, message, done)? {
            return Ok(());
        }
        self.state.write_encoded(ctx, message.size_hint(), done, |encoder, dst| {
            encoder.encode_broadcast(message, dst)
        })
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
                let written = self.write_broadcast(ctx, &message, done);
                return unless_closing(written, done);
            }
            Err(msg) => msg,
        };
        match msg.take::<WebSocketMessage>() {
            Ok(WebSocketMessage::Close(reason)) => {
                if self.state.is_closing() {
                    return unless_closing(Err(SendError::Closing), done);
                }
                self.state.begin_close(ctx, reason);
                done.take().succeed();
                Ok(())
            }
            Ok(mut message) => {
                let len = message.size_hint();
                let written = self.state.write_encoded(ctx, len, done, |encoder, dst| {
                    encoder.encode_from(&mut message, dst)
                });
                unless_closing(written, done)
            }
            Err(other) => {
                self.state.pass_on(ctx);
                ctx.write_with(other, done.take());
                Ok(())
            }
        }
    }

    #[inline]
    fn encode_shared(&mut self, _: &Ctx<'_>, msg: &dyn Message) -> Option<Bytes> {
        self.state.shared_frame((msg as &dyn Any).downcast_ref()?)
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.state.leave(ctx);
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

/// Returns the result of a write. One that nobody waits for is dropped in silence while the connection closes, as on a
/// closed channel: a peer that closes is no fault.
#[inline]
fn unless_closing(written: Result<(), SendError>, done: &Completion) -> HandlerResult {
    match written {
        Err(SendError::Closing) if done.is_none() => Ok(()),
        written => Ok(written?),
    }
}
