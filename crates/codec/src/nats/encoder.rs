//! Encodes NATS operations.

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Message, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use super::operation::NatsOperation;
use crate::frame::parts::{COPIED, begin_parts};

/// Encodes [`NatsOperation`]s. Other messages are passed on, so that encoded operations can be written too.
///
/// Payloads of more than 512 bytes are not copied.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_codec::{NatsEncoder, NatsMessage, NatsOperation};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("nats", NatsEncoder)?;
///     Ok(())
/// })?;
/// let message = NatsMessage::new("news.de", "hello").with_reply("answers.1");
/// channel.write_outbound(NatsOperation::Publish(message)).join()?;
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "PUB news.de answers.1 5\r\nhello\r\n");
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NatsEncoder;

impl NatsOperation {
    /// Writes the operation, without a flush. For handlers without a [`NatsEncoder`] in the pipeline: an operation that is
    /// written this way is not boxed as a message.
    ///
    /// Small operations that are written during the same call into the channel are joined ([`Ctx::write_encoded`]).
    /// Payloads of more than 512 bytes are not copied.
    ///
    /// # Errors
    /// The operation cannot be encoded, or one with a long payload would exceed the hard cap on pending bytes; nothing is
    /// written.
    pub fn write(&self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.check().map_err(Error::new)?;
        let is_long = self.message().is_some_and(|message| {
            let headers = message.headers.as_ref().map_or(0, |headers| headers.wire().len());
            message.payload.len() > COPIED || headers > COPIED
        });
        // An operation without long parts is one outbound part, which a cancel removes as a whole.
        let in_parts = is_long && begin_parts(ctx, done, self.size_hint() + self.line_length())?;
        if is_long && !in_parts {
            return Ok(());
        }
        ctx.write_encoded_with(done, |dst| {
            self.put(dst, &mut |dst, part: &Bytes| {
                if in_parts && part.len() > COPIED {
                    ctx.write(dst.split().freeze());
                    ctx.write(part.clone());
                } else {
                    dst.extend_from_slice(part);
                }
            });
            Ok(())
        })
    }

    /// Returns the bytes of the control line of a message that its size hint does not count, at most.
    fn line_length(&self) -> usize {
        const VERB_AND_SIZES: usize = 64;
        let reply = self.message().and_then(|message| message.reply.as_ref()).map_or(0, Bytes::len);
        let id = match self {
            NatsOperation::Deliver { subscription, .. } => subscription.len(),
            _ => 0,
        };
        reply + id + VERB_AND_SIZES
    }
}

impl Handler for NatsEncoder {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        const MESSAGES: &[TypeTag] = &[TypeTag::of::<NatsOperation>(), TypeTag::of::<Bytes>()];
        Signature::transparent().outbound(MESSAGES, TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        if let Some(operation) = msg.get::<NatsOperation>() {
            return operation.write(ctx, done);
        }
        ctx.write_with(msg, done.take());
        Ok(())
    }
}
