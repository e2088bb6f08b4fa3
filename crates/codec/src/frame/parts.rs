//! Writes a frame that consists of a short encoded header and an existing payload.

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::{ChannelError, Completion, Ctx, HandlerResult};
use waterwheel_executor::Error;

/// Payloads up to this size are copied after the header: cheaper than a separate outbound part and iovec.
pub(crate) const COPIED: usize = 512;

/// Writes a header, which `head` encodes from the payload's length, and the payload.
///
/// A frame of two parts is written completely or refused: it cannot be cancelled after its first part, and a frame
/// that would exceed the hard cap on pending bytes is refused before its header is written.
pub(crate) fn write_frame(
    ctx: &Ctx<'_>,
    payload: Bytes,
    done: &mut Completion,
    head: impl FnOnce(usize, &mut BytesMut) -> HandlerResult,
) -> HandlerResult {
    let length = payload.len();
    if length <= COPIED {
        return ctx.write_encoded_with(done, |dst| {
            head(length, dst)?;
            dst.put_slice(&payload);
            Ok(())
        });
    }
    if !done.begin() {
        return Ok(());
    }
    ctx.write_encoded(|dst| {
        head(length, dst)?;
        check_room(ctx, dst.len() + length)
    })?;
    ctx.write_with(payload, done.take());
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
    check_room(ctx, size)?;
    Ok(done.begin())
}

fn check_room(ctx: &Ctx<'_>, size: usize) -> HandlerResult {
    let room = ctx.bytes_before_refusal();
    if size > room {
        let pending = ctx.channel().pending_bytes();
        let limit = pending.saturating_add(room);
        return Err(Error::new(ChannelError::BufferFull { pending, limit, size }));
    }
    Ok(())
}
