//! Writes a frame that consists of something short that was encoded and a payload that was there already.

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::{ChannelError, Completion, Ctx, EncodeBuffer, HandlerResult};
use waterwheel_executor::Error;

/// Up to so many bytes a payload is copied behind what was encoded: that costs less than a part of its own in
/// the outbound queue and an entry in the kernel's list of buffers.
pub(crate) const COPIED: usize = 512;

/// Writes a payload behind its header, which `head` makes of the payload's length.
///
/// A frame in two parts is written as a whole or not at all: from its first part on it cannot be cancelled, and one
/// that would exceed the hard cap on pending bytes is refused before that.
pub(crate) fn write_frame(
    ctx: &Ctx<'_>,
    buffer: &mut EncodeBuffer,
    payload: Bytes,
    done: &mut Completion,
    head: impl FnOnce(usize, &mut BytesMut) -> HandlerResult,
) -> HandlerResult {
    let length = payload.len();
    if length <= COPIED {
        let frame = buffer.fill(|dst| {
            head(length, dst)?;
            dst.put_slice(&payload);
            Ok(())
        })?;
        ctx.write_with(frame, done.take());
        return Ok(());
    }
    let header = buffer.fill(|dst| head(length, dst))?;
    if begin_parts(ctx, done, header.len() + length)? {
        ctx.write(header);
        ctx.write_with(payload, done.take());
    }
    Ok(())
}

/// Prepares to write `size` bytes in several parts. Returns `false` if the write was cancelled before.
///
/// # Errors
/// Fails if this many bytes would exceed the hard cap: one part might be accepted, and another not.
pub(crate) fn begin_parts(
    ctx: &Ctx<'_>,
    done: &mut Completion,
    size: usize,
) -> Result<bool, Error> {
    let room = ctx.bytes_before_refusal();
    if size > room {
        let pending = ctx.channel().pending_bytes();
        let limit = pending.saturating_add(room);
        return Err(Error::new(ChannelError::BufferFull { pending, limit, size }));
    }
    Ok(done.begin())
}
