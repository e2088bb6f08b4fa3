//! Bytes into messages, and messages into bytes.
//!
//! ```text
//!   Bytes ──► [kept + new] ──decode──► message, message, …     the rest is kept until more comes
//!   Bytes ◄──encode── message
//! ```
//!
//! A codec is two halves, each in a slot of its own ([`Edit::add_codec`](crate::Edit::add_codec)), so
//! that an answer is encoded while the decoder is in the middle of its bytes.
//!
//! What a decoder can rely on, and what it owes, is said at [`Decoder`].

use std::any::type_name;
use std::fmt;
use std::mem;

use bytes::{Bytes, BytesMut};
use waterwheel_executor::Error;

use super::chain::{Emit, NextHandler, Stage};
use super::cumulation::Cumulation;
use super::encode_buffer::EncodeBuffer;
use super::signature::{Signature, TypeTag, Types};
use crate::channel::lifecycle::half_closure::HalfClosed;
use crate::pipeline::completion::Completion;
use crate::pipeline::context::Ctx;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::{Handler, HandlerResult};
use crate::pipeline::message::{Message, Msg};

/// Takes messages out of a stream of bytes. [`Decode`] puts it into a pipeline.
///
/// It is given [`Bytes`], so that a message can be a part of what was read ([`Bytes::split_to`]), which
/// costs neither a copy nor an allocation.
///
/// ```
/// use bytes::{Buf, Bytes};
/// use waterwheel_channel::{Decode, Decoder};
/// use waterwheel_executor::Error;
/// # use waterwheel_channel::Handler;
///
/// /// Messages with a byte before each that says how long it is.
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
/// What it can rely on, and what it owes:
///
/// 1. It is asked again and again until it neither gives a message nor consumes a byte; then it waits
///    for more. What it has not consumed is there next time, with what came since behind it.
/// 2. A message without a consumed byte is an error, [`DecoderStuck`]: it would be given forever.
/// 3. An error goes inward, to the handlers' `on_error`. If the decoder consumed the bytes that it is
///    about, decoding goes on behind them. If it consumed nothing, it would say the same again: then it
///    is not asked any more, and what is unread is dropped, as is whatever comes later. Unless one of
///    those handlers removes it: then rule 4 holds.
/// 4. A decoder that is removed, by a handler it gave a message to for instance, is not asked any more,
///    and its unread bytes go on to the handlers behind it: to those of the next protocol.
/// 5. When the peer has finished ([`HalfClosed::Input`]) or the channel has become inactive, whichever comes
///    first, `decode_last` gets what is left. What is left after that is dropped: a decoder to which that is an
///    error says so there.
/// 6. What it leaves unread has a limit, [`max_unread`](Self::max_unread): a peer that begins a message and never
///    ends it must not fill the memory. Beyond it the decoder has failed for good, with [`TooMuchUnread`].
/// 7. If a round of reads gave no message and the channel does not read by itself, more is asked for:
///    nobody else could know that it is needed.
pub trait Decoder: 'static {
    /// The messages.
    type Out: Message;

    /// Takes the next message from the front, if it is there as a whole.
    ///
    /// # Errors
    /// These bytes are none of the protocol's. Consume them to go on behind them (rule 3).
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Self::Out>, Error>;

    /// How many bytes it may leave unread at most: those of its longest message. [`DEFAULT_MAX_UNREAD`] by default.
    fn max_unread(&self) -> usize {
        DEFAULT_MAX_UNREAD
    }

    /// The same when nothing more will come. It is called until it consumes nothing, at least once,
    /// with no bytes at all if there are none: the end may be what completes a message.
    ///
    /// # Errors
    /// What is left is none of the protocol's.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Self::Out>, Error> {
        if buf.is_empty() { Ok(None) } else { self.decode(buf) }
    }
}

/// Turns messages into bytes. [`Encode`] puts it into a pipeline.
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
    /// The messages.
    type In: Message;

    /// Puts the message's bytes at the end of `dst`, which is empty.
    ///
    /// # Errors
    /// It cannot be encoded: whoever wrote it is told, and none of its bytes are sent.
    fn encode(&mut self, msg: Self::In, dst: &mut BytesMut) -> HandlerResult;
}

/// How many bytes a [`Decoder`] may leave unread that says nothing of it: 8 MiB, longer than most messages that are
/// read as a whole, and little enough for hundreds of peers that all send the beginning of one.
pub const DEFAULT_MAX_UNREAD: usize = 8 * 1024 * 1024;

/// A decoder waits for the end of a message that is longer than it may be.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{decoder} left {unread} bytes unread and may leave {limit}: see Decoder::max_unread")]
pub struct TooMuchUnread {
    /// Its type.
    pub decoder: &'static str,
    /// How many bytes it left.
    pub unread: usize,
    /// How many it may leave.
    pub limit: usize,
}

/// A decoder gave a message without consuming a byte of it.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{decoder} emitted a message without consuming a byte: it would give it again and again")]
pub struct DecoderStuck {
    /// Its type.
    pub decoder: &'static str,
}

/// Puts a [`Decoder`] into a pipeline: as a handler, or as the first [`Stage`] of a chain. By the rules of
/// [`Decoder`]: nothing is lost, nothing is given twice.
pub struct Decode<D> {
    decoder: D,
    unread: Cumulation,
    /// It failed for good.
    has_failed: bool,
    /// This round of reads has given bytes.
    round_had_bytes: bool,
    /// This round of reads has given a message.
    round_had_message: bool,
    /// True once `decode_last` has had all that is left, until more bytes come.
    has_seen_end: bool,
}

impl<D: Decoder> Decode<D> {
    /// With nothing read yet.
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
        let mut buf = self.unread.join(bytes);
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

    /// Gives what the end of the stream completes, before that is passed on.
    fn decode_at_end(&mut self, ctx: &Ctx<'_>)
    where
        D::Out: Message,
    {
        let mut out = NextHandler::new(ctx);
        self.decode_rest(&mut out);
        out.end_round();
    }

    #[cold]
    fn fail<O: Emit<D::Out>>(&mut self, error: Error, unread: Bytes, out: &mut O) {
        self.has_failed = true;
        // More of it would be dropped: whoever gets the error decides what is read now.
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

    fn end_round(&mut self, ctx: &Ctx<'_>) {
        let needs_more =
            mem::take(&mut self.round_had_bytes) & !mem::take(&mut self.round_had_message);
        if needs_more && !ctx.is_auto_read() {
            ctx.read();
        }
    }

    fn fire_unread(&mut self, ctx: &Ctx<'_>) {
        fire_bytes(self.unread.take(), ctx);
    }
}

#[inline]
fn emit_or_fire_error<T>(msg: T, out: &mut impl Emit<T>) {
    // An error of a later stage is about this message, not about the next.
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

/// Puts an [`Encoder`] into a pipeline. The completion of a write goes with its bytes.
pub struct Encode<E> {
    encoder: E,
    buffer: EncodeBuffer,
}

impl<E: Encoder> Encode<E> {
    /// With nothing written yet.
    pub fn new(encoder: E) -> Self {
        Self { encoder, buffer: EncodeBuffer::default() }
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
        let bytes = self.buffer.fill(|dst| self.encoder.encode(msg, dst))?;
        ctx.write_with(bytes, done.take());
        Ok(())
    }
}

impl<E> fmt::Debug for Encode<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encode").field("encoder", &type_name::<E>()).finish_non_exhaustive()
    }
}
