//! State that both slots of a connection share.

use std::cell::{Cell, RefCell};
use std::mem;

use bytes::{Bytes, BytesMut};
use waterwheel_channel::{Completion, Ctx, Hold, LocalCtx, Message};

use super::agreement::Agreement;
use super::options::OptionValues;
use super::send_buffer::SendBuffer;
use super::time_limits::{CLOSE_TIMER, PeerProgress};
use crate::protocol::broadcast::BroadcastMessage;
use crate::protocol::close::{CloseCode, CloseReason};
use crate::protocol::close_handshake::{CloseAction, CloseHandshake};
use crate::protocol::encoder::{MAX_COPIED, MessageEncoder};
use crate::protocol::error::SendError;
use crate::protocol::frame_head::SHORT_HEAD;
use crate::protocol::message::WebSocketMessage;
use crate::protocol::message_buffer::MessageKind;

/// The bytes of a frame beyond those of its message: its head, and the end of its compression.
const MAX_OVERHEAD: usize = 64;

/// The state that both slots of a connection share. Nothing of it is borrowed while a handler is called.
pub(super) struct SocketState {
    pub(super) agreement: Agreement,
    encoder: RefCell<MessageEncoder>,
    /// The frames of this round of reads.
    unsent: SendBuffer,
    handshake: Cell<CloseHandshake>,
    /// True if something was written that the end of the round flushes.
    has_unflushed: Cell<bool>,
    /// The bytes that were written to the channel.
    written: Cell<u64>,
    /// The context of the decoder's slot, which has the timers.
    decoder_slot: RefCell<Option<LocalCtx>>,
    /// The closes of the channel that wait for the closing handshake.
    closes: RefCell<Vec<Completion>>,
    /// Makes a drain of the loop wait for the closing handshake.
    hold: Cell<Option<Hold>>,
    /// True once the time limit of the closing handshake is set.
    is_ending: Cell<bool>,
    /// The bytes that the peer had taken at the last look of that limit.
    taken: Cell<u64>,
    /// True once the channel is closed, or about to be.
    is_over: Cell<bool>,
}

impl SocketState {
    pub(super) fn new(agreement: Agreement) -> Self {
        let encoder = MessageEncoder::new(agreement.role);
        let encoder = match (&agreement.options.values().deflate, &agreement.deflate) {
            (Some(options), Some(parameters)) => encoder.deflate(options, parameters),
            _ => encoder,
        };
        Self {
            agreement,
            encoder: RefCell::new(encoder),
            unsent: SendBuffer::default(),
            handshake: Cell::default(),
            has_unflushed: Cell::default(),
            written: Cell::default(),
            decoder_slot: RefCell::default(),
            closes: RefCell::default(),
            hold: Cell::default(),
            is_ending: Cell::default(),
            taken: Cell::default(),
            is_over: Cell::default(),
        }
    }

    #[inline]
    pub(super) fn options(&self) -> &OptionValues {
        self.agreement.options.values()
    }

    pub(super) fn set_decoder_slot(&self, ctx: &Ctx<'_>) {
        *self.decoder_slot.borrow_mut() = Some(ctx.to_local());
    }

    #[inline]
    pub(super) fn is_receiving(&self) -> bool {
        self.handshake.get().is_receiving()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.handshake.get() != CloseHandshake::Open
    }

    pub(super) fn progress(&self, ctx: &Ctx<'_>) -> PeerProgress {
        PeerProgress::of(ctx, self.written.get())
    }

    // Messages.

    /// Sends a message from the decoder's slot.
    #[inline]
    pub(super) fn send(&self, ctx: &Ctx<'_>, message: WebSocketMessage) -> Result<(), SendError> {
        match message {
            WebSocketMessage::Text(text) if text.len() <= MAX_COPIED => {
                self.send_data(ctx, MessageKind::Text, text.as_bytes())
            }
            WebSocketMessage::Binary(bytes) if bytes.len() <= MAX_COPIED => {
                self.send_data(ctx, MessageKind::Binary, &bytes)
            }
            message => self.send_any(ctx, message),
        }
    }

    /// Sends a message that is not a short text or a short binary message.
    #[inline(never)]
    fn send_any(&self, ctx: &Ctx<'_>, mut message: WebSocketMessage) -> Result<(), SendError> {
        if let WebSocketMessage::Close(reason) = message {
            self.begin_close(ctx, reason);
            return Ok(());
        }
        let len = message.size_hint();
        self.encode(ctx, len, |encoder, dst| encoder.encode_from(&mut message, dst))?;
        self.flush_later(ctx);
        Ok(())
    }

    /// Sends a text or a binary message by reference.
    #[inline]
    pub(super) fn send_data(
        &self,
        ctx: &Ctx<'_>,
        kind: MessageKind,
        data: &[u8],
    ) -> Result<(), SendError> {
        match ctx.is_in_read_round() && self.collect_short(ctx, kind, data) {
            true => Ok(()),
            false => self.send_any_data(ctx, kind, data),
        }
    }

    /// Collects a short message for the end of the round: the usual case, [`encode`](Self::encode) in one step. Returns
    /// false, and does nothing, in any other case.
    #[inline(always)]
    fn collect_short(&self, ctx: &Ctx<'_>, kind: MessageKind, data: &[u8]) -> bool {
        let is_collected = self.unsent.append(|frames| {
            let max_len = data.len().saturating_add(MAX_OVERHEAD);
            frames.capacity() - frames.len() >= max_len
                && max_len <= ctx.bytes_before_refusal().saturating_sub(frames.len())
                && self.encoder.borrow().encode_short(kind, data, frames)
        });
        if is_collected {
            self.count_written(data.len() + SHORT_HEAD);
            self.has_unflushed.set(true);
        }
        is_collected
    }

    #[inline(never)]
    fn send_any_data(
        &self,
        ctx: &Ctx<'_>,
        kind: MessageKind,
        data: &[u8],
    ) -> Result<(), SendError> {
        let encode = |encoder: &mut MessageEncoder, dst: &mut BytesMut| {
            encoder.encode_data(kind, data, dst).map(|()| None)
        };
        self.encode(ctx, data.len(), encode)?;
        self.flush_later(ctx);
        Ok(())
    }

    #[inline]
    pub(super) fn send_broadcast(
        &self,
        ctx: &Ctx<'_>,
        message: &BroadcastMessage,
    ) -> Result<(), SendError> {
        if !self.write_shared(ctx, message, &mut Completion::none())? {
            let len = message.size_hint();
            self.encode(ctx, len, |encoder, dst| encoder.encode_broadcast(message, dst))?;
        }
        self.flush_later(ctx);
        Ok(())
    }

    /// Returns the frame that all connections share; `None` if a frame of this connection is not, or other frames are
    /// before it.
    #[inline]
    pub(super) fn shared_frame(&self, message: &BroadcastMessage) -> Option<Bytes> {
        if self.unsent.len() > 0 {
            return None;
        }
        let frame = self.encoder.borrow_mut().shared_frame(message).ok()??;
        self.count_written(frame.len());
        Some(frame)
    }

    /// Writes the frame that all connections share. Returns false, and does nothing, if this one masks or compresses it.
    #[inline]
    pub(super) fn write_shared(
        &self,
        ctx: &Ctx<'_>,
        message: &BroadcastMessage,
        done: &mut Completion,
    ) -> Result<bool, SendError> {
        let frame = self.encoder.borrow_mut().shared_frame(message)?;
        let Some(frame) = frame else { return Ok(false) };
        check_room(ctx, frame.len(), self.unsent.len())?;
        self.count_written(frame.len());
        self.unsent.pass_on(ctx);
        if done.is_none() {
            ctx.write(frame);
        } else {
            ctx.write_with(frame, done.take());
        }
        Ok(true)
    }

    /// Encodes a message of at most `len` bytes, and writes it; with its completion, if it has one.
    #[inline]
    pub(super) fn write_encoded(
        &self,
        ctx: &Ctx<'_>,
        len: usize,
        done: &mut Completion,
        encode: impl FnOnce(&mut MessageEncoder, &mut BytesMut) -> Result<Option<Bytes>, SendError>,
    ) -> Result<(), SendError> {
        if !done.is_none() {
            return self.encode_with(ctx, len, done, encode);
        }
        self.encode(ctx, len, encode)?;
        self.unsent.pass_on(ctx);
        Ok(())
    }

    /// Encodes a message of at most `len` bytes, and collects its frame for the end of the round.
    #[inline]
    pub(super) fn encode(
        &self,
        ctx: &Ctx<'_>,
        len: usize,
        encode: impl FnOnce(&mut MessageEncoder, &mut BytesMut) -> Result<Option<Bytes>, SendError>,
    ) -> Result<(), SendError> {
        let len = self.max_payload(len);
        let (payload, frame_len, collected) = self.unsent.append(|frames| {
            let before = frames.len();
            check_room(ctx, len, before)?;
            let payload = encode(&mut self.encoder.borrow_mut(), frames)?;
            Ok((payload, frames.len() - before, frames.len()))
        })?;
        self.count_written(frame_len);
        if let Some(payload) = payload {
            self.count_written(payload.len());
            self.unsent.pass_on(ctx);
            ctx.write(payload);
        } else if SendBuffer::is_full(collected) {
            self.unsent.pass_on(ctx);
        }
        Ok(())
    }

    /// Returns the most bytes that a message of `len` bytes has in its frame.
    #[inline]
    fn max_payload(&self, len: usize) -> usize {
        match self.agreement.deflate {
            None => len,
            // The bound of zlib: a byte that does not compress may take nine bits.
            Some(_) => len.saturating_add(len / 8 + len / 64),
        }
    }

    #[inline]
    fn count_written(&self, len: usize) {
        self.written.set(self.written.get() + len as u64);
    }

    /// Encodes a message with a completion, which completes with the last of its bytes.
    pub(super) fn encode_with(
        &self,
        ctx: &Ctx<'_>,
        len: usize,
        done: &mut Completion,
        encode: impl FnOnce(&mut MessageEncoder, &mut BytesMut) -> Result<Option<Bytes>, SendError>,
    ) -> Result<(), SendError> {
        check_room(ctx, self.max_payload(len), self.unsent.len())?;
        self.unsent.pass_on(ctx);
        let mut head = BytesMut::new();
        let payload = encode(&mut self.encoder.borrow_mut(), &mut head)?;
        self.count_written(head.len() + payload.as_ref().map_or(0, Bytes::len));
        match payload {
            None => ctx.write_with(head.freeze(), done.take()),
            Some(payload) => {
                if !head.is_empty() {
                    ctx.write(head.freeze());
                }
                ctx.write_with(payload, done.take());
            }
        }
        Ok(())
    }

    /// Passes on what was collected: something else is about to be written.
    #[inline]
    pub(super) fn pass_on(&self, ctx: &Ctx<'_>) {
        self.unsent.pass_on(ctx);
    }

    /// True while the channel is writable, with what was collected.
    #[inline]
    pub(super) fn is_writable(&self, ctx: &Ctx<'_>) -> bool {
        ctx.is_writable() && self.unsent.len() < ctx.bytes_before_unwritable()
    }

    /// Flushes at the end of the round of reads, or now if there is none.
    #[inline]
    fn flush_later(&self, ctx: &Ctx<'_>) {
        if ctx.is_in_read_round() {
            self.has_unflushed.set(true);
        } else {
            self.unsent.pass_on(ctx);
            ctx.flush();
        }
    }

    /// Flushes what was sent in this round of reads.
    #[inline]
    pub(super) fn flush_round(&self, ctx: &Ctx<'_>) {
        if self.has_unflushed.replace(false) && !self.unsent.try_send(ctx) {
            self.unsent.pass_on(ctx);
            ctx.flush();
        }
    }

    // The closing handshake.

    /// Begins the closing handshake, from either slot.
    pub(super) fn begin_close(&self, ctx: &Ctx<'_>, reason: Option<CloseReason>) {
        let action = self.step(CloseHandshake::begin);
        self.perform(ctx, action, reason);
    }

    /// Notes the Close of the peer: answers it, if it is no answer.
    pub(super) fn on_peer_close(&self, ctx: &Ctx<'_>, reason: Option<&CloseReason>) {
        let action = self.step(CloseHandshake::receive);
        // Its code without its text: RFC 6455, section 5.5.1.
        self.perform(ctx, action, reason.map(|reason| reason.code().into()));
    }

    /// Fails the connection.
    pub(super) fn fail(&self, ctx: &Ctx<'_>, reason: CloseReason) {
        let action = self.step(CloseHandshake::fail);
        self.perform(ctx, action, Some(reason));
    }

    fn step(&self, step: impl FnOnce(&mut CloseHandshake) -> CloseAction) -> CloseAction {
        let mut handshake = self.handshake.get();
        let action = step(&mut handshake);
        self.handshake.set(handshake);
        action
    }

    fn perform(&self, ctx: &Ctx<'_>, action: CloseAction, reason: Option<CloseReason>) {
        match action {
            CloseAction::Nothing => return,
            CloseAction::Send | CloseAction::SendAndEnd => {
                let close = WebSocketMessage::Close(reason);
                // Nothing else has sent a Close: the state of the handshake says so. Without room below the hard cap the
                // peer, which does not read, would not read it either.
                let sent =
                    self.encode(ctx, close.size_hint(), |encoder, dst| encoder.encode(close, dst));
                if sent.is_err() {
                    self.encoder.borrow_mut().end();
                }
                self.has_unflushed.set(false);
                self.unsent.pass_on(ctx);
                ctx.flush();
            }
            CloseAction::End => {}
        }
        if action != CloseAction::Send {
            // The peer reads the Close before the end of the data, and then ends the connection; or has done so.
            ctx.shutdown_output();
        }
        if self.is_ending.replace(true) {
            return; // The time limit of the handshake is one for all of it.
        }
        self.hold.set(Some(ctx.hold()));
        self.taken.set(self.progress(ctx).taken);
        let limit = self.options().close_timeout;
        let slot = self.decoder_slot.borrow().clone();
        if let Some(slot) = slot {
            // A slot that is gone has no connection to limit.
            let _ = slot.run(move |ctx| {
                ctx.schedule(limit, CLOSE_TIMER);
            });
        }
    }

    /// Looks at the closing handshake, whose time is over. Returns true if the peer is still taking what was written.
    pub(super) fn continues_close(&self, progress: PeerProgress) -> bool {
        let before = self.taken.replace(progress.taken);
        progress.pending > 0 && progress.taken > before
    }

    /// Keeps a close of the channel until the closing handshake is over, which it begins. Returns false if there is no
    /// connection for one.
    pub(super) fn hold_close(&self, ctx: &Ctx<'_>, done: &mut Completion) -> bool {
        let is_live = self.decoder_slot.borrow().as_ref().is_some_and(LocalCtx::is_live);
        if !ctx.is_active() || !is_live || self.is_over.get() {
            return false;
        }
        self.closes.borrow_mut().push(done.take());
        let code = match ctx.close_cause() {
            None => CloseCode::NORMAL,
            Some(_) => CloseCode::INTERNAL_ERROR,
        };
        self.begin_close(ctx, Some(code.into()));
        true
    }

    /// Closes the channel: the closing handshake is over.
    pub(super) fn close_channel(&self, ctx: &Ctx<'_>) {
        self.is_over.set(true);
        drop(self.hold.take());
        let closes = mem::take(&mut *self.closes.borrow_mut());
        if closes.is_empty() {
            return ctx.close();
        }
        for done in closes {
            ctx.close_with(done);
        }
    }

    /// Ends WebSocket on a channel that may go on without: what was sent goes out, and a close that waits is carried out.
    pub(super) fn leave(&self, ctx: &Ctx<'_>) {
        if ctx.is_active() {
            self.unsent.pass_on(ctx);
            ctx.flush();
            if !self.closes.borrow().is_empty() {
                self.close_channel(ctx);
            }
        }
        self.release();
    }

    /// Releases what waits for the end of the connection: the channel is closed, or the handlers were removed.
    pub(super) fn release(&self) {
        self.is_over.set(true);
        self.unsent.clear();
        drop(self.hold.take());
        self.handshake.set(CloseHandshake::Ended);
        let closes = mem::take(&mut *self.closes.borrow_mut());
        for done in closes {
            done.succeed();
        }
    }
}

/// Refuses a message of `len` bytes that would exceed the hard cap of the channel, which counts the `collected` bytes
/// later: a part of its frame could be accepted, and the rest refused.
#[inline]
fn check_room(ctx: &Ctx<'_>, len: usize, collected: usize) -> Result<(), SendError> {
    let room = ctx.bytes_before_refusal().saturating_sub(collected);
    if len.saturating_add(MAX_OVERHEAD) > room {
        return Err(SendError::BufferFull { len, room });
    }
    Ok(())
}
