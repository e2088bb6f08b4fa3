//! The slot of the encoder.

use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, Events, FileRegion, Handler, HandlerResult, Msg, Signature, TypeTag,
};

use super::connection::ServerConnection;
use super::connection_flags::CodecPhase;
use crate::codec::error::HttpCodecError;
use crate::codec::messages::{BodyEnd, FullResponse, RefuseRequest};
use crate::codec::part_writer::complete_after_parts;
use crate::protocol::response_decoder::ResponseHead;

/// Encodes answers.
pub(super) struct AnswerEncodeSlot {
    connection: Rc<ServerConnection>,
}

impl AnswerEncodeSlot {
    pub(super) fn new(connection: Rc<ServerConnection>) -> Self {
        Self { connection }
    }

    /// Encodes a message; returns it if it is none of the codec's.
    fn encode(&self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> Result<HandlerResult, Msg> {
        let connection = &self.connection;
        let msg = match msg.into_bytes() {
            Ok(bytes) => {
                return Ok(connection.write_part(ctx, |body, out| body.write_bytes(bytes, out)));
            }
            Err(other) => other,
        };
        let msg = match msg.take::<ResponseHead>() {
            Ok(head) => return Ok(connection.write_head(ctx, &head)),
            Err(other) => other,
        };
        let msg = match msg.take::<BodyEnd>() {
            Ok(end) => return Ok(connection.write_end(ctx, end.trailers.as_deref(), done)),
            Err(other) => other,
        };
        let msg = match msg.take::<FullResponse>() {
            Ok(full) => return Ok(connection.write_full(ctx, full, done)),
            Err(other) => other,
        };
        let msg = match msg.take::<FileRegion>() {
            Ok(region) => {
                return Ok(connection.write_part(ctx, |body, out| body.write_file(region, out)));
            }
            Err(other) => other,
        };
        let RefuseRequest(error) = msg.take()?;
        if !connection.requests.borrow().has_body() {
            return Ok(HttpCodecError::NoHead.refuse());
        }
        connection.refuse(ctx, error, false);
        Ok(Ok(()))
    }
}

impl Handler for AnswerEncodeSlot {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        const PARTS: &[TypeTag] = &[
            TypeTag::of::<ResponseHead>(),
            TypeTag::of::<Bytes>(),
            TypeTag::of::<FileRegion>(),
            TypeTag::of::<BodyEnd>(),
            TypeTag::of::<FullResponse>(),
            TypeTag::of::<RefuseRequest>(),
        ];
        // `FileRegion` is left out: handlers that take bytes alone, such as TLS, may stand before a codec that writes no
        // files.
        Signature::transparent().outbound(PARTS, TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        if self.connection.flags().phase == CodecPhase::Upgraded {
            ctx.write_with(msg, done.take());
            return Ok(());
        }
        match self.encode(ctx, msg, done) {
            Ok(Ok(())) => complete_after_parts(ctx, done),
            Ok(Err(error)) => return Err(error),
            Err(other) => ctx.write_with(other, done.take()),
        }
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        self.connection.on_timer(ctx, tag);
        Ok(())
    }
}
