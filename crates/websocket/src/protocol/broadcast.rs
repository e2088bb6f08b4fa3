//! A message for many connections.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::Message;

use super::encoder::opcode_of;
use super::frame_head::FrameHead;
use super::message_buffer::MessageKind;

/// A text or binary message that is encoded once, and shared by all connections that it is written to. A clone is a
/// handle to the same message.
#[derive(Clone)]
pub struct BroadcastMessage(Arc<SharedFrames>);

struct SharedFrames {
    kind: MessageKind,
    /// The frame of a server without compression.
    plain: Bytes,
    /// The number of bytes of its head.
    head_len: usize,
}

impl BroadcastMessage {
    /// Returns a text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::new(MessageKind::Text, text.as_ref().as_bytes())
    }

    /// Returns a binary message.
    pub fn binary(bytes: impl AsRef<[u8]>) -> Self {
        Self::new(MessageKind::Binary, bytes.as_ref())
    }

    fn new(kind: MessageKind, data: &[u8]) -> Self {
        let head = FrameHead {
            opcode: opcode_of(kind),
            is_final: true,
            is_compressed: false,
            len: data.len() as u64,
            mask: [0; 4],
        };
        let mut plain = BytesMut::with_capacity(data.len() + 10);
        head.put(false, &mut plain);
        let head_len = plain.len();
        plain.put_slice(data);
        Self(Arc::new(SharedFrames { kind, plain: plain.freeze(), head_len }))
    }

    pub(super) fn kind(&self) -> MessageKind {
        self.0.kind
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.0.plain[self.0.head_len..]
    }

    #[inline]
    pub(super) fn plain_frame(&self) -> Bytes {
        self.0.plain.clone()
    }
}

impl Message for BroadcastMessage {
    fn size_hint(&self) -> usize {
        self.0.plain.len()
    }
}

impl fmt::Debug for BroadcastMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastMessage")
            .field("kind", &self.0.kind)
            .field("len", &self.data().len())
            .finish()
    }
}
