//! Encodes RESP values and commands.

use bytes::{BufMut, Bytes};
use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Message, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use super::command::RespCommand;
use super::value::RespValue;
use crate::frame::parts::{COPIED, begin_parts};

/// The RESP version of an encoder. Written as a message, it selects the version for later messages and is not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RespVersion {
    /// RESP2, with which every client begins. Values of RESP3 are written as their nearest RESP2 equivalent.
    #[default]
    Resp2,
    /// RESP3, for clients that have sent `HELLO 3`.
    Resp3,
}

impl Message for RespVersion {}

/// Encodes [`RespValue`]s and [`RespCommand`]s. Other messages are passed on, so that encoded RESP can be written too.
///
/// Strings of more than 512 bytes are not copied.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_codec::{RespCommand, RespEncoder, RespValue, RespVersion};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("resp", RespEncoder::default())?;
///     Ok(())
/// })?;
/// channel.write_outbound(RespCommand::new(&["PING"])).join()?;
/// channel.write_outbound(RespValue::Null).join()?;
/// channel.write_outbound(RespVersion::Resp3).join()?;
/// channel.write_outbound(RespValue::Null).join()?;
/// let sent: Vec<Bytes> = std::iter::from_fn(|| channel.read_outbound()).collect();
/// assert_eq!(sent, ["*1\r\n$4\r\nPING\r\n", "$-1\r\n", "_\r\n"]);
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct RespEncoder {
    version: RespVersion,
}

impl RespEncoder {
    /// Creates an encoder of this version. The default is RESP2.
    #[must_use]
    pub fn new(version: RespVersion) -> Self {
        Self { version }
    }
}

impl RespValue {
    /// Writes the value as a handler's answer, without a flush. For handlers that answer without a [`RespEncoder`] in
    /// the pipeline: a value that is written this way is not boxed as a message.
    ///
    /// Small values that are written during the same call into the channel are joined
    /// ([`Ctx::write_encoded`]). Strings of more than 512 bytes are not copied.
    ///
    /// # Errors
    /// The value cannot be encoded, or a value with long strings would exceed the hard cap on pending bytes; nothing
    /// is written.
    pub fn write(
        &self,
        ctx: &Ctx<'_>,
        version: RespVersion,
        done: &mut Completion,
    ) -> HandlerResult {
        self.check(true).map_err(Error::new)?;
        let mut in_parts = false;
        let size = self.most_bytes();
        // A value without long strings is one outbound part, which a cancel removes as a whole.
        if size > COPIED && has_long(self) {
            if !begin_parts(ctx, done, size)? {
                return Ok(());
            }
            in_parts = true;
        }
        ctx.write_encoded_with(done, |dst| {
            self.put(version, dst, &mut |dst, payload| {
                if in_parts && payload.len() > COPIED {
                    ctx.write(dst.split().freeze());
                    ctx.write(payload.clone());
                } else {
                    dst.extend_from_slice(payload);
                }
            });
            Ok(())
        })
    }
}

impl Handler for RespEncoder {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        const MESSAGES: &[TypeTag] = &[
            TypeTag::of::<RespValue>(),
            TypeTag::of::<RespCommand>(),
            TypeTag::of::<RespVersion>(),
            TypeTag::of::<Bytes>(),
        ];
        Signature::transparent().outbound(MESSAGES, TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        if let Some(value) = msg.get::<RespValue>() {
            return value.write(ctx, self.version, done);
        }
        if let Some(version) = msg.get::<RespVersion>() {
            self.version = *version;
            done.take().succeed();
            return Ok(());
        }
        let msg = match msg.take::<RespCommand>() {
            Ok(command) if command.wire().len() <= COPIED => {
                return ctx.write_encoded_with(done, |dst| {
                    dst.put_slice(command.wire());
                    Ok(())
                });
            }
            Ok(command) => Msg::from(command.into_wire()),
            Err(other) => other,
        };
        ctx.write_with(msg, done.take());
        Ok(())
    }
}

/// True if the value contains a string that is written without a copy.
fn has_long(value: &RespValue) -> bool {
    let pair = |(key, value): &(RespValue, RespValue)| has_long(key) || has_long(value);
    match value {
        RespValue::Bulk(bytes) | RespValue::BulkError(bytes) => bytes.len() > COPIED,
        RespValue::Verbatim { text, .. } => text.len() > COPIED,
        RespValue::BigNumber(digits) => digits.len() > COPIED,
        RespValue::Array(values) | RespValue::Set(values) | RespValue::Push(values) => {
            values.iter().any(has_long)
        }
        RespValue::Map(pairs) => pairs.iter().any(pair),
        RespValue::Attributed { attributes, value } => {
            attributes.iter().any(pair) || has_long(value)
        }
        _ => false,
    }
}
