//! The frames of a round of reads, which become one part of the channel's output.

use std::cell::{Cell, RefCell};

use bytes::{Bytes, BytesMut};
use waterwheel_channel::Ctx;

/// The memory that is allocated at once for frames: room for sixty short ones.
const BLOCK_SIZE: usize = 4 * 1024;

/// The bytes that are collected before they are passed on: a round may answer with many messages, and the channel counts
/// only what it has.
const MAX_COLLECTED: usize = 16 * 1024;

thread_local! {
    /// The unused part of a block, shared by the connections of a thread.
    static SPARE: Cell<BytesMut> = Cell::new(BytesMut::new());
}

/// The frames that were encoded and not passed on to the channel. It holds memory only while there are some.
#[derive(Default)]
pub(super) struct SendBuffer(RefCell<BytesMut>);

impl SendBuffer {
    /// Appends frames: calls `encode` with the buffer, which may hold earlier frames.
    #[inline]
    pub(super) fn append<R>(&self, encode: impl FnOnce(&mut BytesMut) -> R) -> R {
        let mut frames = self.0.borrow_mut();
        if frames.is_empty() {
            *frames = SPARE.take();
            if frames.capacity() < BLOCK_SIZE / 16 {
                frames.reserve(BLOCK_SIZE);
            }
        }
        encode(&mut frames)
    }

    /// Returns the number of bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// True if so much is collected that it is to be passed on.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len() >= MAX_COLLECTED
    }

    /// Passes the frames on to the channel, as one part.
    #[inline]
    pub(super) fn pass_on(&self, ctx: &Ctx<'_>) {
        let mut frames = self.0.take();
        if frames.is_empty() {
            return;
        }
        let part = if ctx.bytes_before_refusal() < frames.len() {
            // The senders have asked for room; a handler on the way has taken it since.
            return ctx.write_or_close(frames.freeze());
        } else if frames.len() > BLOCK_SIZE {
            // The block grew; its memory goes with its bytes.
            frames.freeze()
        } else if is_waiting(ctx) {
            // What waits for a slow peer does not keep a block that it shares with others.
            let part = Bytes::copy_from_slice(&frames);
            frames.clear();
            SPARE.set(frames);
            part
        } else {
            let part = frames.split().freeze();
            SPARE.set(frames);
            part
        };
        ctx.write(part);
    }

    /// Drops the frames.
    pub(super) fn clear(&self) {
        drop(self.0.take());
    }
}

/// True if earlier bytes of the channel wait for the transport.
#[inline]
fn is_waiting(ctx: &Ctx<'_>) -> bool {
    ctx.pending_bytes() > 0
}
