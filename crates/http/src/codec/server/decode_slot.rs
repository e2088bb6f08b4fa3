//! The slot of the decoder.

use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, Draining, Events, HalfClosed, Handler, HandlerResult, Msg, Signature, TypeTag,
};

use super::connection::ServerConnection;
use super::connection_flags::CodecPhase;
use crate::codec::messages::BodyEnd;
use crate::protocol::request_head::RequestHead;

/// Decodes requests.
pub(super) struct RequestDecodeSlot {
    connection: Rc<ServerConnection>,
    /// True if the current round of reads has brought bytes.
    round_had_bytes: bool,
    /// True if the current round of reads has yielded a message.
    round_had_message: bool,
}

impl RequestDecodeSlot {
    pub(super) fn new(connection: Rc<ServerConnection>) -> Self {
        Self { connection, round_had_bytes: false, round_had_message: false }
    }
}

impl Handler for RequestDecodeSlot {
    fn interest(&self) -> Events {
        Events::READ
            | Events::READ_COMPLETE
            | Events::USER_EVENT
            | Events::WRITABILITY_CHANGED
            | Events::INACTIVE
    }

    fn signature(&self) -> Signature {
        const PARTS: &[TypeTag] =
            &[TypeTag::of::<RequestHead>(), TypeTag::of::<Bytes>(), TypeTag::of::<BodyEnd>()];
        Signature::transparent()
            .inbound(TypeTag::list::<Bytes>(), PARTS)
            .answers(TypeTag::list::<Bytes>())
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.connection.set_decoder_slot(ctx);
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = match msg.into_bytes() {
            Ok(bytes) => bytes,
            Err(other) => {
                ctx.fire_read(other);
                return Ok(());
            }
        };
        if ctx.is_removed() {
            pass_rest_on(&self.connection, ctx);
            ctx.fire_read(bytes);
        } else if self.connection.flags().phase != CodecPhase::Closing {
            self.round_had_bytes = true;
            self.round_had_message |= self.connection.decode(ctx, bytes);
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let needs_more = std::mem::take(&mut self.round_had_bytes)
            & !std::mem::take(&mut self.round_had_message);
        // No other handler knows that a request is incomplete.
        if needs_more && !ctx.is_auto_read() {
            ctx.read();
        }
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<Draining>() {
            self.connection.on_drain(ctx);
        }
        if event.get() == Some(&HalfClosed::Input) {
            self.connection.on_input_over(ctx);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_writability_changed();
        self.connection.resume(ctx);
        self.connection.settle(ctx);
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.connection.end();
        ctx.fire_inactive();
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        self.connection.on_timer(ctx, tag);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        pass_rest_on(&self.connection, ctx);
        self.connection.end();
    }
}

/// Passes the bytes that were not decoded on to the handlers of the next protocol.
fn pass_rest_on(connection: &ServerConnection, ctx: &Ctx<'_>) {
    let rest = connection.take_unread();
    if !rest.is_empty() {
        ctx.fire_read(rest);
        if !ctx.is_in_read_round() {
            ctx.fire_read_complete();
        }
    }
}
