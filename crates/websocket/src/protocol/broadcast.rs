//! A message for many connections.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::Message;

use super::encoder::opcode_of;
use super::frame_head::{FrameHead, MAX_HEAD};
use super::message_buffer::MessageKind;
use crate::deflate::deflater::Deflater;
use crate::deflate::spare_streams::CompressorSetting;

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
    /// The frames of servers that compress, each made by the first connection with its setting. The lock is held while
    /// one is made, so that no other loop makes the same.
    compressed: Mutex<Vec<(CompressorSetting, Bytes)>>,
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
        let (plain, head_len) = frame_of(kind, data, false);
        Self(Arc::new(SharedFrames { kind, plain, head_len, compressed: Mutex::default() }))
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

    /// Returns the frame of a server that compresses. Its data refers to no earlier message: a peer inflates it with any
    /// context.
    pub(super) fn compressed_frame(&self, setting: CompressorSetting) -> Bytes {
        // Only a push changes the list: a panic leaves it whole.
        let mut frames = self.0.compressed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, frame)) = frames.iter().find(|(of, _)| *of == setting) {
            return frame.clone();
        }
        let compressed = Deflater::new(setting, true).deflate(self.data(), true);
        let (frame, _) = frame_of(self.0.kind, &compressed, true);
        frames.push((setting, frame.clone()));
        frame
    }
}

/// Returns the frame of a server, and the number of bytes of its head.
fn frame_of(kind: MessageKind, payload: &[u8], is_compressed: bool) -> (Bytes, usize) {
    let head = FrameHead {
        opcode: opcode_of(kind),
        is_final: true,
        is_compressed,
        len: payload.len() as u64,
        mask: [0; 4],
    };
    let mut frame = BytesMut::with_capacity(payload.len() + MAX_HEAD);
    head.put(false, &mut frame);
    let head_len = frame.len();
    frame.put_slice(payload);
    (frame.freeze(), head_len)
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
