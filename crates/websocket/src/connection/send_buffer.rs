//! The frames of a round of reads, which become one part of the channel's output.

use std::cell::{Cell, RefCell};
use std::mem;

use bytes::{Bytes, BytesMut};
use waterwheel_channel::Ctx;

/// The memory that is allocated at once for frames: room for sixty short ones.
const BLOCK_SIZE: usize = 4 * 1024;

/// The bytes that are collected before they are passed on: a round may answer with many messages, and the channel counts
/// only what it has.
const MAX_COLLECTED: usize = 16 * 1024;

thread_local! {
    /// The unused part of a block, shared by the connections of a thread.
    static SPARE: Cell<Option<BytesMut>> = const { Cell::new(None) };
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
            take_spare(&mut frames);
        }
        let result = encode(&mut frames);
        if frames.is_empty() {
            SPARE.set(Some(mem::take(&mut *frames)));
        }
        result
    }

    /// Returns the number of bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// True if a buffer of this length is to be passed on.
    #[inline]
    pub(super) fn is_full(len: usize) -> bool {
        len >= MAX_COLLECTED
    }

    /// Passes the frames on to the channel, as one part.
    #[inline]
    pub(super) fn pass_on(&self, ctx: &Ctx<'_>) {
        let mut frames = self.0.borrow_mut();
        if frames.is_empty() {
            return;
        }
        // The senders have asked for room: without other bytes that wait, there is enough.
        if ctx.pending_bytes() == 0 && frames.len() <= BLOCK_SIZE {
            let part = frames.split().freeze();
            SPARE.set(Some(mem::take(&mut *frames)));
            drop(frames);
            return ctx.write(part);
        }
        let long = mem::take(&mut *frames);
        drop(frames);
        pass_on_behind(ctx, long);
    }

    /// Sends the frames at once. Returns false, and does nothing, if there are none or they have to take the usual way.
    #[inline]
    pub(super) fn try_send(&self, ctx: &Ctx<'_>) -> bool {
        // Borrowed meanwhile: no handler is called.
        let mut frames = self.0.borrow_mut();
        let is_sent = ctx.try_send(&frames);
        if is_sent {
            frames.clear();
            keep_spare(mem::take(&mut *frames));
        }
        is_sent
    }

    /// Drops the frames.
    pub(super) fn clear(&self) {
        drop(self.0.take());
    }
}

/// Keeps a block for the next frames of a connection of this thread, unless it has grown.
#[inline]
fn keep_spare(block: BytesMut) {
    if block.capacity() <= BLOCK_SIZE {
        SPARE.with(|spare| drop(spare.replace(Some(block))));
    }
}

/// Takes the unused part of a block, or allocates one.
#[inline]
fn take_spare(frames: &mut BytesMut) {
    *frames = SPARE.take().unwrap_or_default();
    if frames.capacity() < BLOCK_SIZE / 16 {
        frames.reserve(BLOCK_SIZE);
    }
}

/// Passes on frames that are long, or wait behind earlier bytes of the channel.
#[inline(never)]
fn pass_on_behind(ctx: &Ctx<'_>, mut frames: BytesMut) {
    if ctx.bytes_before_refusal() < frames.len() {
        // A handler on the way has taken the room since.
        return ctx.write_or_close(frames.freeze());
    }
    if frames.len() > BLOCK_SIZE {
        // The block grew; its memory goes with its bytes.
        return ctx.write(frames.freeze());
    }
    // What waits for a slow peer does not keep a block that it shares with others.
    let part = Bytes::copy_from_slice(&frames);
    frames.clear();
    SPARE.set(Some(frames));
    ctx.write(part);
}
