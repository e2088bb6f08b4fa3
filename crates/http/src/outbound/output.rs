//! The bytes that a call into a connection writes.

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::{Ctx, Msg};

/// Collects small parts, heads and chunks, so that the answers of one call are one write.
pub(crate) struct Output<'a> {
    ctx: &'a Ctx<'a>,
    buffer: BytesMut,
    /// The bytes of all parts so far.
    written: u64,
}

/// The longest payload that is copied behind its head: a part of its own costs more than this copy.
const MAX_COPIED: usize = 512;

/// The memory that is allocated at once for small parts.
const BLOCK_SIZE: usize = 4 * 1024;

impl<'a> Output<'a> {
    /// Returns an output over a buffer, which is empty and may have room.
    #[inline]
    pub(crate) fn new(ctx: &'a Ctx<'a>, mut buffer: BytesMut) -> Self {
        if buffer.capacity() < BLOCK_SIZE / 4 {
            buffer.reserve(BLOCK_SIZE);
        }
        Self { ctx, buffer, written: 0 }
    }

    pub(crate) fn ctx(&self) -> &'a Ctx<'a> {
        self.ctx
    }

    /// Returns the buffer for small parts.
    #[inline]
    pub(crate) fn small_parts(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Writes bytes: copied if they are few, otherwise as a part of their own.
    pub(crate) fn write_bytes(&mut self, bytes: Bytes) {
        if bytes.len() <= MAX_COPIED {
            self.buffer.put_slice(&bytes);
        } else {
            self.write_part(bytes.len() as u64, bytes);
        }
    }

    /// Writes a part of its own, after the small parts before it.
    pub(crate) fn write_part(&mut self, len: u64, part: impl Into<Msg>) {
        self.pass_on();
        self.written += len;
        let part = part.into();
        self.write_required(part.size_hint(), part);
    }

    /// Writes a part without which every answer after it would be misread. A part that the channel would refuse, because
    /// of its hard cap, closes the channel.
    fn write_required(&self, size: usize, part: impl Into<Msg>) {
        if size > self.ctx.bytes_before_refusal() {
            self.ctx.write_or_close(part);
        } else {
            // Without a completion, which costs half of what writing costs.
            self.ctx.write(part);
        }
    }

    /// Passes the small parts on to the channel, as one part.
    #[inline]
    pub(crate) fn pass_on(&mut self) {
        if !self.buffer.is_empty() {
            self.written += self.buffer.len() as u64;
            let part = self.buffer.split().freeze();
            self.write_required(part.len(), part);
        }
    }

    /// Passes the rest on. Returns the buffer, and how many bytes were written.
    #[inline]
    pub(crate) fn finish(mut self) -> (BytesMut, u64) {
        self.pass_on();
        (self.buffer, self.written)
    }
}
