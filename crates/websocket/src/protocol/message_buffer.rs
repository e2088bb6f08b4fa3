//! The message that is being read, until it is complete or handed on in parts.

use std::mem;

use bytes::Bytes;

use super::error::ProtocolError;
use super::message::{MessagePart, PartData, WebSocketMessage};
use super::utf8::CutCharacter;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Text,
    Binary,
}

/// Data of a message that was received and not handed on.
#[derive(Debug)]
pub(super) enum MessageBuffer {
    /// Text, and the beginning of a character behind it.
    Text(String, CutCharacter),
    Binary(Vec<u8>),
}

/// A frame may announce more than its sender ever sends: at most this much memory is reserved before its bytes come, or as
/// much as has come if that is more.
const MAX_RESERVED_AHEAD: usize = 4 * 1024;

impl MessageBuffer {
    #[inline]
    pub(super) fn new(kind: MessageKind) -> Self {
        match kind {
            MessageKind::Text => Self::Text(String::new(), CutCharacter::default()),
            MessageKind::Binary => Self::Binary(Vec::new()),
        }
    }

    /// Returns the bytes that were not handed on, without a character that is cut.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text, _) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }

    /// Makes room for `len` bytes that have come of a frame of which `missing` bytes are expected: not for many more than
    /// have come, so that memory grows with the data. A message that goes on behind the frame grows by doubling: it may
    /// come in a million frames.
    pub(super) fn reserve(&mut self, len: usize, missing: u64, is_final: bool) {
        let capacity = match self {
            Self::Text(text, _) => text.capacity(),
            Self::Binary(bytes) => bytes.capacity(),
        };
        if capacity - self.len() >= len {
            return;
        }
        let ahead = self.len().max(MAX_RESERVED_AHEAD).max(len);
        let room = usize::try_from(missing).unwrap_or(usize::MAX).min(ahead);
        match (self, is_final) {
            (Self::Text(text, _), true) => text.reserve_exact(room),
            (Self::Text(text, _), false) => text.reserve(room),
            (Self::Binary(bytes), true) => bytes.reserve_exact(room),
            (Self::Binary(bytes), false) => bytes.reserve(room),
        }
    }

    /// Appends data.
    #[inline]
    pub(super) fn append(&mut self, data: &[u8]) -> Result<(), ProtocolError> {
        match self {
            Self::Text(text, cut) => cut.append(data, text),
            Self::Binary(bytes) => {
                bytes.extend_from_slice(data);
                Ok(())
            }
        }
    }

    /// Returns the message, which is complete.
    #[inline]
    pub(super) fn into_message(self) -> Result<WebSocketMessage, ProtocolError> {
        match self {
            Self::Text(text, cut) if cut.is_empty() => Ok(WebSocketMessage::Text(text.into())),
            Self::Text(..) => Err(ProtocolError::InvalidUtf8),
            Self::Binary(bytes) => Ok(WebSocketMessage::Binary(Bytes::from(bytes))),
        }
    }

    /// Takes what has come as a part of the message.
    pub(super) fn take_part(&mut self, is_last: bool) -> Result<WebSocketMessage, ProtocolError> {
        let data = match self {
            Self::Text(_, cut) if is_last && !cut.is_empty() => {
                return Err(ProtocolError::InvalidUtf8);
            }
            Self::Text(text, _) => PartData::Text(mem::take(text).into()),
            Self::Binary(bytes) => PartData::Binary(Bytes::from(mem::take(bytes))),
        };
        Ok(WebSocketMessage::Part(MessagePart { data, is_last }))
    }
}
