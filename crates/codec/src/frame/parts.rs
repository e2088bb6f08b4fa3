//! Writes a frame that consists of a short encoded header and an existing payload.

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::{ChannelError, Completion, Ctx, EncodeBuffer, HandlerResult};
use waterwheel_executor::Error;

/// Payloads up to this size are copied after the header: cheaper than a separate outbound part and iovec.
pub(crate) const COPIED: usize = 512;

/// Writes a header, which `head` encodes from the payload's length, and the payload.
///
/// A frame of two parts is written completely or refused: it cannot be cancelled after its first part, and a frame
/// that would exceed the hard cap on pending bytes is refused before its header is written.
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

/// Prepares a write of `size` bytes in several parts. Returns false if the write was cancelled.
///
/// # Errors
/// The bytes would exceed the hard cap: one part might be accepted and another refused.
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
