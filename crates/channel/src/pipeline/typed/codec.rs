//! Codecs: decoders turn bytes into messages, encoders turn messages into bytes.
//!
//! ```text
//!   Bytes ──► [unread + new] ──decode──► message, message, …     unread bytes are kept until more arrive
//!   Bytes ◄──encode── message
//! ```
//!
//! A codec is two handlers, each in its own slot ([`Edit::add_codec`](crate::Edit::add_codec)), so that an answer can
//! be encoded while the decoder is still running.
//!
//! The rules for decoders are listed at [`Decoder`].

use std::any::type_name;
use std::convert::Infallible;
use std::fmt;
use std::mem;

use bytes::{Bytes, BytesMut};
use waterwheel_executor::Error;

use super::chain::{Emit, NextHandler, Stage};
use super::cumulation::Cumulation;
use super::signature::{Signature, TypeTag, Types};
use crate::channel::lifecycle::half_closure::HalfClosed;
use crate::pipeline::completion::Completion;
use crate::pipeline::context::Ctx;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::{Handler, HandlerResult};
use crate::pipeline::message::{Message, Msg};

/// Decodes messages from a stream of bytes. Wrap it in [`Decode`] to add it to a pipeline.
///
/// A decoder works on [`Bytes`], so that a message can share the memory that was read
/// ([`Bytes::split_to`]) without a copy or an allocation.
///
/// ```
/// use bytes::{Buf, Bytes};
/// use waterwheel_channel::{Decode, Decoder};
/// use waterwheel_executor::Error;
/// # use waterwheel_channel::Handler;
///
/// /// Decodes messages prefixed by their length in one byte.
/// struct Short;
///
/// impl Decoder for Short {
///     type Out = Bytes;
///
///     fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
///         let Some(&len) = buf.first() else { return Ok(None) };
///         let len = usize::from(len);
///         if buf.len() <= len {
///             return Ok(None);
///         }
///         buf.advance(1);
///         Ok(Some(buf.split_to(len)))
///     }
/// }
///
/// let handler = Decode::new(Short);
/// # let _: &dyn Handler = &handler;
/// ```
///
/// Rules, which [`Decode`] keeps and a decoder can rely on:
///
/// 1. `decode` is called repeatedly, until it neither returns a message nor consumes a byte. Bytes that
///    it has not consumed are presented again with the next bytes appended.
/// 2. A message for which no byte was consumed is an error, [`DecoderStuck`], because it would be
///    decoded forever.
/// 3. An error is fired inward, to the `on_error` of the handlers after it. If the decoder consumed the
///    offending bytes, decoding continues after them. If it consumed nothing, the decoder has failed:
///    it is not called again, and all unread and later bytes are dropped, unless one of those handlers
///    removes the decoder (rule 4).
/// 4. A decoder that is removed, for example by a handler that received one of its messages, is not
///    called again. Its unread bytes are passed to the handlers after it: those of the next protocol.
/// 5. When the peer has finished ([`HalfClosed::Input`]) or the channel has become inactive, whichever
///    is first, `decode_last` is called with the unread bytes. Bytes that it leaves are dropped; a
///    decoder that treats such bytes as an error returns the error there.
/// 6. The number of unread bytes is limited by [`max_unread`](Self::max_unread), so that a peer that
///    begins a message and never ends it cannot fill the memory. Beyond the limit the decoder has
///    failed, with [`TooMuchUnread`].
/// 7. If a round of reads yields no message and the channel does not read by itself, another read is
///    requested, because no other handler can know that it is needed.
pub trait Decoder: 'static {
    /// The type of the decoded messages.
    type Out: Message;

    /// Decodes the next message from the front of `buf`. Returns `None` if it is not complete yet.
    ///
    /// # Errors
    /// The bytes violate the protocol. Consume them to continue after them (rule 3).
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Self::Out>, Error>;

    /// Returns how many bytes the decoder may leave unread at most: the length of its longest message.
    /// [`DEFAULT_MAX_UNREAD`] by default.
    fn max_unread(&self) -> usize {
        DEFAULT_MAX_UNREAD
    }

    /// Decodes the rest at the end of the input. Called until it consumes nothing, and at least once,
    /// even with an empty `buf`, because the end may complete a message.
    ///
    /// # Errors
    /// The remaining bytes violate the protocol.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Self::Out>, Error> {
        if buf.is_empty() { Ok(None) } else { self.decode(buf) }
    }
}

/// Encodes messages as bytes. Wrap it in [`Encode`] to add it to a pipeline.
///
/// ```
/// use bytes::{BufMut, Bytes, BytesMut};
/// use waterwheel_channel::{Encode, Encoder, HandlerResult};
/// use waterwheel_executor::Error;
/// # use waterwheel_channel::Handler;
///
/// struct Short;
///
/// impl Encoder for Short {
///     type In = String;
///
///     fn encode(&mut self, msg: String, dst: &mut BytesMut) -> HandlerResult {
///         let len = u8::try_from(msg.len()).map_err(|_| Error::new("longer than 255 bytes"))?;
///         dst.put_u8(len);
///         dst.put_slice(msg.as_bytes());
///         Ok(())
///     }
/// }
///
/// let handler = Encode::new(Short);
/// # let _: &dyn Handler = &handler;
/// ```
pub trait Encoder: 'static {
    /// The type of the messages to encode.
    type In: Message;

    /// Appends the bytes of the message to `dst`, which is empty.
    ///
    /// # Errors
    /// The message cannot be encoded. Its write fails with this error, and none of its bytes are sent.
    fn encode(&mut self, msg: Self::In, dst: &mut BytesMut) -> HandlerResult;
}

/// The default of [`Decoder::max_unread`]: 8 MiB. Longer than most messages that are decoded as a whole, and small
/// enough for hundreds of peers that each send the beginning of such a message.
pub const DEFAULT_MAX_UNREAD: usize = 8 * 1024 * 1024;

/// The error of a decoder that left more bytes unread than it may: the peer has sent part of a message that is too
/// long.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{decoder} left {unread} bytes unread, more than its limit of {limit}: see Decoder::max_unread"
)]
pub struct TooMuchUnread {
    /// The type of the decoder.
    pub decoder: &'static str,
    /// The number of bytes it left unread.
    pub unread: usize,
    /// The number of bytes it may leave unread.
    pub limit: usize,
}

/// The error of a decoder that returned a message without consuming a byte.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{decoder} returned a message without consuming a byte, and would return it forever")]
pub struct DecoderStuck {
    /// The type of the decoder.
    pub decoder: &'static str,
}

/// Wraps a [`Decoder`] as a [`Handler`], or as the first [`Stage`] of a chain. Keeps the rules listed
/// at [`Decoder`]: no byte is lost, and none is decoded twice.
pub struct Decode<D> {
    decoder: D,
    unread: Cumulation,
    /// True once the decoder has failed and is not called any more.
    has_failed: bool,
    /// True if the current round of reads has brought bytes.
    round_had_bytes: bool,
    /// True if the current round of reads has yielded a message.
    round_had_message: bool,
    /// True once `decode_last` has seen all remaining bytes, until more arrive.
    has_seen_end: bool,
}

impl<D: Decoder> Decode<D> {
    /// Wraps a decoder, with no unread bytes.
    pub fn new(decoder: D) -> Self {
        Self {
            decoder,
            unread: Cumulation::default(),
            has_failed: false,
            round_had_bytes: false,
            round_had_message: false,
            has_seen_end: false,
        }
    }

    /// Decodes new bytes together with the unread ones, and emits the messages.
    #[inline]
    fn decode_bytes<O: Emit<D::Out>>(&mut self, bytes: Bytes, out: &mut O) {
        if out.ctx().is_removed() {
            self.fire_unread(&out.ctx());
            return fire_bytes(bytes, &out.ctx());
        }
        if self.has_failed {
            return;
        }
        self.round_had_bytes = true;
        self.has_seen_end = false;
        let removals = out.ctx().removals();
        let mut emitted = false;
        let mut buf = self.unread.append(bytes);
        while !buf.is_empty() {
            let before = buf.len();
            match self.decoder.decode(&mut buf) {
                Ok(Some(_)) if buf.len() >= before => {
                    return self.fail(stuck_error::<D>(), buf, out);
                }
                Ok(Some(msg)) => {
                    emitted = true;
                    emit_or_fire_error(msg, out);
                }
                Ok(None) if buf.len() >= before => break,
                Ok(None) => continue,
                Err(error) if buf.len() >= before => return self.fail(error, buf, out),
                Err(error) => out.ctx().fire_error(error),
            }
            if out.ctx().removals() != removals && out.ctx().is_removed() {
                return fire_bytes(buf, &out.ctx());
            }
        }
        self.round_had_message |= emitted;
        if buf.len() > self.decoder.max_unread() {
            return self.fail(self.too_much_unread_error(buf.len()), buf, out);
        }
        self.unread.keep(buf);
    }

    /// Calls `decode_last` at the end of the input, and emits the messages.
    fn decode_rest<O: Emit<D::Out>>(&mut self, out: &mut O) {
        let mut buf = self.unread.take();
        while !self.has_failed && !self.has_seen_end {
            let before = buf.len();
            match self.decoder.decode_last(&mut buf) {
                Ok(Some(msg)) => emit_or_fire_error(msg, out),
                Ok(None) => {}
                Err(error) => out.ctx().fire_error(error),
            }
            if out.ctx().is_removed() {
                return fire_bytes(buf, &out.ctx());
            }
            self.has_seen_end = buf.len() >= before;
        }
    }

    /// Emits the messages that the end of the input completes, before the event is forwarded.
    fn decode_at_end(&mut self, ctx: &Ctx<'_>)
    where
        D::Out: Message,
    {
        let mut out = NextHandler::new(ctx);
        self.decode_rest(&mut out);
        out.end_round();
    }

    /// Fires the error of a decoder that is not called any more.
    #[cold]
    fn fail<O: Emit<D::Out>>(&mut self, error: Error, unread: Bytes, out: &mut O) {
        self.has_failed = true;
        // No further read is requested: its bytes would be dropped. The handler that receives the error decides.
        self.round_had_bytes = false;
        out.ctx().fire_error(error);
        if out.ctx().is_removed() {
            fire_bytes(unread, &out.ctx());
        }
    }

    #[cold]
    fn too_much_unread_error(&self, unread: usize) -> Error {
        let (decoder, limit) = (type_name::<D>(), self.decoder.max_unread());
        Error::new(TooMuchUnread { decoder, unread, limit })
    }

    /// Requests another read if this round has brought bytes but no message (rule 7).
    fn end_round(&mut self, ctx: &Ctx<'_>) {
        let needs_more =
            mem::take(&mut self.round_had_bytes) & !mem::take(&mut self.round_had_message);
        if needs_more && !ctx.is_auto_read() {
            ctx.read();
        }
    }

    /// Passes the unread bytes to the next handler.
    fn fire_unread(&mut self, ctx: &Ctx<'_>) {
        fire_bytes(self.unread.take(), ctx);
    }
}

#[inline]
fn emit_or_fire_error<T>(msg: T, out: &mut impl Emit<T>) {
    // An error of a later stage concerns this message only; decoding continues.
    if let Err(error) = out.emit(msg) {
        out.ctx().fire_error(error);
    }
}

fn fire_bytes(bytes: Bytes, ctx: &Ctx<'_>) {
    if !bytes.is_empty() {
        ctx.fire_read(bytes);
    }
}

#[cold]
fn stuck_error<D>() -> Error {
    Error::new(DecoderStuck { decoder: type_name::<D>() })
}

impl<D: Decoder> Handler for Decode<D> {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE | Events::INACTIVE | Events::USER_EVENT
    }

    fn signature(&self) -> Signature {
        Signature::of_inbound(TypeTag::list::<Bytes>(), Types::of::<D::Out>(), Types::NONE)
    }

    #[inline]
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.into_bytes() {
            Ok(bytes) => self.decode_bytes(bytes, &mut NextHandler::new(ctx)),
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.end_round(ctx);
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.decode_at_end(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get() == Some(&HalfClosed::Input) {
            self.decode_at_end(ctx);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.fire_unread(ctx);
    }
}

impl<D: Decoder> Stage for Decode<D> {
    type In = Bytes;
    type Out = D::Out;

    #[inline]
    fn on<O: Emit<D::Out>>(&mut self, bytes: Bytes, out: &mut O) -> HandlerResult {
        self.decode_bytes(bytes, out);
        Ok(())
    }

    fn on_end<O: Emit<D::Out>>(&mut self, out: &mut O) -> HandlerResult {
        self.decode_rest(out);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) {
        self.end_round(ctx);
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.fire_unread(ctx);
    }
}

impl<D> fmt::Debug for Decode<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decode").field("decoder", &type_name::<D>()).finish_non_exhaustive()
    }
}

/// Wraps an [`Encoder`] as a [`Handler`], or as the last [`Stage`] of a chain, which encodes and writes the answers
/// of the stage before it.
///
/// As a handler, the completion of a write moves on with the encoded bytes. As a stage, each answer is written and
/// flushed, and a message that cannot be encoded is an error of the chain. Small messages that are written during the
/// same call into the channel become one part of its outbound buffer: see [`Ctx::write_encoded`].
pub struct Encode<E> {
    encoder: E,
}

impl<E: Encoder> Encode<E> {
    /// Wraps an encoder.
    pub fn new(encoder: E) -> Self {
        Self { encoder }
    }
}

impl<E: Encoder> Handler for Encode<E> {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        Signature::of_outbound(TypeTag::list::<E::In>(), Types::of::<Bytes>())
    }

    #[inline]
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let msg = match msg.take() {
            Ok(msg) => msg,
            Err(other) => {
                ctx.write_with(other, done.take());
                return Ok(());
            }
        };
        ctx.write_encoded_with(done, |dst| self.encoder.encode(msg, dst))
    }
}

impl<E: Encoder> Stage for Encode<E> {
    type In = E::In;
    type Out = Infallible;

    #[inline]
    fn on<O: Emit<Infallible>>(&mut self, msg: E::In, out: &mut O) -> HandlerResult {
        let ctx = out.ctx();
        ctx.write_encoded(|dst| self.encoder.encode(msg, dst))?;
        ctx.flush();
        Ok(())
    }

    fn answers(&self) -> Types {
        Types::of::<Bytes>()
    }
}

impl<E> fmt::Debug for Encode<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encode").field("encoder", &type_name::<E>()).finish_non_exhaustive()
    }
}
