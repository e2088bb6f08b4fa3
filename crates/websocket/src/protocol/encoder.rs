//! Messages, written as frames.

use std::mem;

use bytes::{BufMut, Bytes, BytesMut};

use super::broadcast::BroadcastMessage;
use super::close::CloseReason;
use super::error::SendError;
use super::frame_head::{FrameHead, MAX_CONTROL, Opcode, WebSocketRole};
use super::mask::{apply_mask, random_bytes};
use super::message::{MessagePart, PartData, WebSocketMessage};
use super::message_buffer::MessageKind;
use crate::deflate::deflater::Deflater;
use crate::deflate::options::DeflateOptions;
use crate::deflate::parameters::DeflateParameters;
use crate::deflate::spare_streams::CompressorSetting;

/// Writes the messages of an endpoint as frames.
///
/// 1. *A message is one frame*; the parts of a message are a frame each.
/// 2. *A payload is copied* behind the head of its frame if it is short, or has to be masked or compressed. A longer one
///    is returned, to be sent behind what was appended.
/// 3. *Nothing follows a Close*, and no other message stands between the parts of one; pings and pongs do.
///
/// ```
/// use bytes::BytesMut;
/// use waterwheel_websocket::{MessageEncoder, WebSocketMessage, WebSocketRole};
///
/// let mut encoder = MessageEncoder::new(WebSocketRole::Server);
/// let mut frames = BytesMut::new();
/// let payload = encoder.encode(WebSocketMessage::text("Hello"), &mut frames)?;
/// assert_eq!((&frames[..], payload), (&b"\x81\x05Hello"[..], None));
/// # Ok::<(), waterwheel_websocket::SendError>(())
/// ```
#[derive(Debug)]
pub struct MessageEncoder {
    role: WebSocketRole,
    is_closed: bool,
    /// The message in parts that is being sent.
    part: Option<OpenParts>,
    deflate: Option<EncoderDeflate>,
}

/// A message in parts whose last part was not sent.
#[derive(Clone, Copy, Debug)]
struct OpenParts {
    kind: MessageKind,
    is_compressed: bool,
}

#[derive(Debug)]
struct EncoderDeflate {
    deflater: Deflater,
    min_size: usize,
}

/// A payload up to this size is copied behind its head: that costs less than a part of its own in the queue of the
/// channel.
pub(crate) const MAX_COPIED: usize = 512;

impl MessageEncoder {
    /// Returns an encoder for an endpoint with this role.
    #[must_use]
    pub fn new(role: WebSocketRole) -> Self {
        Self { role, is_closed: false, part: None, deflate: None }
    }

    /// Compresses messages, by the parameters that were negotiated.
    #[must_use]
    pub fn deflate(mut self, options: &DeflateOptions, parameters: &DeflateParameters) -> Self {
        let (no_context_takeover, window_bits) = match self.role {
            WebSocketRole::Server => {
                (parameters.server_no_context_takeover(), parameters.server_max_window_bits())
            }
            WebSocketRole::Client => {
                (parameters.client_no_context_takeover(), parameters.client_max_window_bits())
            }
        };
        let setting = CompressorSetting { level: options.level, window_bits };
        let deflater = Deflater::new(setting, no_context_takeover);
        self.deflate = Some(EncoderDeflate { deflater, min_size: options.min_size });
        self
    }

    /// True once a Close was encoded.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Refuses what follows, as after a Close: the Close could not be sent.
    pub(crate) fn end(&mut self) {
        self.is_closed = true;
        self.part = None;
    }

    /// Appends a message to `dst`; returns the payload that is to be sent behind it, if it was not copied.
    ///
    /// # Errors
    /// The message may not be sent now; nothing was appended.
    #[inline]
    pub fn encode(
        &mut self,
        mut message: WebSocketMessage,
        dst: &mut BytesMut,
    ) -> Result<Option<Bytes>, SendError> {
        self.encode_from(&mut message, dst)
    }

    /// Appends a message, as [`encode`](Self::encode), and takes the payload that it returns out of it. Drops nothing of the
    /// message: its memory may be the user's, whose drop may send.
    ///
    /// # Errors
    /// As `encode`.
    #[inline]
    pub(crate) fn encode_from(
        &mut self,
        message: &mut WebSocketMessage,
        dst: &mut BytesMut,
    ) -> Result<Option<Bytes>, SendError> {
        if self.is_closed {
            return Err(SendError::Closing);
        }
        match message {
            WebSocketMessage::Text(text) => {
                let is_copied = self.encode_whole(MessageKind::Text, text.as_bytes(), dst)?;
                Ok((!is_copied).then(|| mem::take(text).into_bytes()))
            }
            WebSocketMessage::Binary(bytes) => {
                let is_copied = self.encode_whole(MessageKind::Binary, bytes, dst)?;
                Ok((!is_copied).then(|| mem::take(bytes)))
            }
            WebSocketMessage::Part(part) => self.encode_part(part, dst),
            WebSocketMessage::Ping(payload) => self.encode_control(Opcode::Ping, payload, dst),
            WebSocketMessage::Pong(payload) => self.encode_control(Opcode::Pong, payload, dst),
            WebSocketMessage::Close(reason) => {
                self.encode_close(reason.as_ref(), dst);
                Ok(None)
            }
        }
    }

    /// Appends a short text or binary message by reference.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    #[inline]
    pub(crate) fn encode_data(
        &mut self,
        kind: MessageKind,
        data: &[u8],
        dst: &mut BytesMut,
    ) -> Result<(), SendError> {
        if self.is_closed {
            return Err(SendError::Closing);
        }
        if self.part.is_some() {
            return Err(SendError::UnfinishedMessage);
        }
        if self.compresses(data.len()) {
            self.encode_compressed(opcode_of(kind), data, true, dst);
        } else {
            let head = self.head(opcode_of(kind), data.len());
            self.put_frame(head, data, dst);
        }
        Ok(())
    }

    /// Appends a message of at most 125 bytes of a server that does not compress, the usual case. Returns false, and does
    /// nothing, for any other message or state.
    #[inline(always)]
    pub(crate) fn encode_short(&self, kind: MessageKind, data: &[u8], dst: &mut BytesMut) -> bool {
        let is_plain = self.role == WebSocketRole::Server
            && !self.is_closed
            && self.part.is_none()
            && self.deflate.is_none();
        if is_plain && data.len() <= MAX_CONTROL {
            dst.extend_from_slice(&FrameHead::short(opcode_of(kind), data.len() as u8));
            dst.extend_from_slice(data);
            return true;
        }
        false
    }

    /// Appends the frame of a message, or only its head. Returns true if the data was copied.
    #[inline]
    fn encode_whole(
        &mut self,
        kind: MessageKind,
        data: &[u8],
        dst: &mut BytesMut,
    ) -> Result<bool, SendError> {
        if self.role == WebSocketRole::Client
            || data.len() <= MAX_COPIED
            || self.compresses(data.len())
        {
            return self.encode_data(kind, data, dst).map(|()| true);
        }
        if self.part.is_some() {
            return Err(SendError::UnfinishedMessage);
        }
        self.head(opcode_of(kind), data.len()).put(false, dst);
        Ok(false)
    }

    fn encode_part(
        &mut self,
        part: &mut MessagePart,
        dst: &mut BytesMut,
    ) -> Result<Option<Bytes>, SendError> {
        let (kind, data) = match &part.data {
            PartData::Text(text) => (MessageKind::Text, &text.as_bytes()[..]),
            PartData::Binary(bytes) => (MessageKind::Binary, &bytes[..]),
        };
        let (open, opcode) = match self.part {
            None => (OpenParts { kind, is_compressed: self.deflate.is_some() }, opcode_of(kind)),
            Some(open) if open.kind == kind => (open, Opcode::Continuation),
            Some(_) => return Err(SendError::UnfinishedMessage),
        };
        self.part = if part.is_last { None } else { Some(open) };
        if open.is_compressed {
            self.encode_compressed(opcode, data, part.is_last, dst);
            return Ok(None);
        }
        let head = FrameHead { is_final: part.is_last, ..self.head(opcode, data.len()) };
        if self.role == WebSocketRole::Client || data.len() <= MAX_COPIED {
            self.put_frame(head, data, dst);
            return Ok(None);
        }
        head.put(false, dst);
        Ok(Some(match &mut part.data {
            PartData::Text(text) => mem::take(text).into_bytes(),
            PartData::Binary(bytes) => mem::take(bytes),
        }))
    }

    fn encode_compressed(
        &mut self,
        opcode: Opcode,
        data: &[u8],
        is_last: bool,
        dst: &mut BytesMut,
    ) {
        let Some(EncoderDeflate { deflater, .. }) = &mut self.deflate else { return };
        let compressed = deflater.deflate(data, is_last);
        let is_compressed = opcode != Opcode::Continuation;
        let head =
            FrameHead { is_final: is_last, is_compressed, ..self.head(opcode, compressed.len()) };
        self.put_frame(head, &compressed, dst);
    }

    fn encode_control(
        &mut self,
        opcode: Opcode,
        payload: &[u8],
        dst: &mut BytesMut,
    ) -> Result<Option<Bytes>, SendError> {
        if payload.len() > MAX_CONTROL {
            return Err(SendError::ControlTooLong { len: payload.len() });
        }
        let head = self.head(opcode, payload.len());
        self.put_frame(head, payload, dst);
        Ok(None)
    }

    fn encode_close(&mut self, reason: Option<&CloseReason>, dst: &mut BytesMut) {
        self.end();
        let mut payload = Vec::new();
        if let Some(reason) = reason {
            payload.put_u16(reason.code().get());
            payload.put_slice(reason.text().as_bytes());
        }
        let head = self.head(Opcode::Close, payload.len());
        self.put_frame(head, &payload, dst);
    }

    /// Appends a message that is encoded once for many; returns the frame that is to be sent behind what was appended.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    #[inline]
    pub fn encode_broadcast(
        &mut self,
        message: &BroadcastMessage,
        dst: &mut BytesMut,
    ) -> Result<Option<Bytes>, SendError> {
        let frame = self.shared_frame(message)?;
        if frame.is_none() {
            self.encode_data(message.kind(), message.data(), dst)?;
        }
        Ok(frame)
    }

    /// Returns the frame of a message that is encoded once for many; `None` if each frame of this connection has a mask of
    /// its own.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    #[inline]
    pub(crate) fn shared_frame(
        &mut self,
        message: &BroadcastMessage,
    ) -> Result<Option<Bytes>, SendError> {
        if self.is_closed {
            return Err(SendError::Closing);
        }
        if self.part.is_some() {
            return Err(SendError::UnfinishedMessage);
        }
        if self.role == WebSocketRole::Client {
            return Ok(None);
        }
        Ok(Some(match &mut self.deflate {
            Some(EncoderDeflate { deflater, min_size }) if message.data().len() >= *min_size => {
                // The frame is in the window of the peer now, and in none of this side: what follows refers to neither.
                deflater.forget_context();
                message.compressed_frame(deflater.setting())
            }
            _ => message.plain_frame(),
        }))
    }

    #[inline]
    fn compresses(&self, len: usize) -> bool {
        self.deflate.as_ref().is_some_and(|deflate| len >= deflate.min_size)
    }

    #[inline]
    fn head(&self, opcode: Opcode, len: usize) -> FrameHead {
        let mask = match self.role {
            WebSocketRole::Client => random_bytes(),
            WebSocketRole::Server => [0; 4],
        };
        FrameHead { opcode, is_final: true, is_compressed: false, len: len as u64, mask }
    }

    #[inline]
    fn put_frame(&self, head: FrameHead, payload: &[u8], dst: &mut BytesMut) {
        let is_masked = self.role == WebSocketRole::Client;
        head.put(is_masked, dst);
        let start = dst.len();
        dst.put_slice(payload);
        if is_masked {
            apply_mask(&mut dst[start..], head.mask);
        }
    }
}

#[inline]
pub(super) fn opcode_of(kind: MessageKind) -> Opcode {
    match kind {
        MessageKind::Text => Opcode::Text,
        MessageKind::Binary => Opcode::Binary,
    }
}
