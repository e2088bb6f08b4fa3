//! The body of a request on its way to the connection.

use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use waterwheel_channel::{Ctx, FileRegion};
use waterwheel_executor::Error;

use crate::body::source::{BodyChunk, BodySource};
use crate::protocol::encoder::{CHUNK_END, encode_body_end, encode_chunk_start};

/// The bytes that are written at once: the channel is asked for room in between.
const PIECE: usize = 64 * 1024;

/// Chunks up to this size are copied, so that a chunk is one write instead of three.
const COPIED_CHUNK: usize = 1024;

/// The most steps of one turn, empty chunks included: a source that never waits does not keep the loop.
const STEPS_PER_TURN: u32 = 64;

/// The most bytes of one turn, after which others come first: a peer may read as fast as the body is written.
const BYTES_PER_TURN: u64 = 256 * 1024;

/// Writes the body of a request, as far as the channel has room.
pub(super) struct RequestSender {
    body: SentBody,
    /// The bytes that have been written, those of files that the kernel sends excepted.
    written: u64,
    /// True while the server is asked whether it wants the body (Expect: 100-continue).
    pub(super) awaits_continue: bool,
    /// True if the last step has ended because the channel had no room.
    pub(super) is_blocked: bool,
}

/// The part of a body that is not sent.
pub(super) enum SentBody {
    Bytes(Bytes),
    /// A part of a file; if it is copied, the kernel cannot send it (TLS).
    File {
        region: FileRegion,
        is_copied: bool,
    },
    Source(SentSource),
}

/// A streamed body.
pub(super) struct SentSource {
    source: Box<dyn BodySource>,
    framing: SourceFraming,
    /// True if files are copied.
    is_copied: bool,
    /// The unsent rest of a part of a file that the source has returned.
    file: Option<FileRegion>,
}

/// The framing of a streamed body.
enum SourceFraming {
    Chunked,
    /// This many bytes are missing of the announced length.
    Length(u64),
}

/// How far a body was sent.
pub(super) enum SendStep {
    /// The channel has no room, or the source has nothing.
    Waiting,
    Done,
    Failed(Error),
}

/// Why a streamed body is not what it has announced.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum LengthMismatch {
    #[error("the source ended {missing} bytes before the length it had announced")]
    TooShort { missing: u64 },
    #[error("the source has more bytes than the length it had announced")]
    TooLong,
}

impl RequestSender {
    pub(super) fn new(body: SentBody, awaits_continue: bool) -> Self {
        Self { body, written: 0, awaits_continue, is_blocked: false }
    }

    /// Writes while the channel has room, for one turn; then the waker is called. The caller flushes.
    pub(super) fn advance(&mut self, ctx: &Ctx<'_>, waker: &Waker) -> SendStep {
        self.is_blocked = false;
        if self.awaits_continue {
            return SendStep::Waiting;
        }
        let end = self.written.saturating_add(BYTES_PER_TURN);
        for _ in 0..STEPS_PER_TURN {
            if self.written >= end {
                break;
            }
            if !ctx.is_writable() {
                // Above the high-water mark a flush writes at once.
                ctx.flush();
                if !ctx.is_writable() {
                    self.is_blocked = true;
                    return SendStep::Waiting;
                }
            }
            let step = match &mut self.body {
                SentBody::Bytes(bytes) => {
                    let piece = bytes.split_to(bytes.len().min(PIECE));
                    self.written += piece.len() as u64;
                    ctx.write_or_close(piece);
                    if bytes.is_empty() { Some(SendStep::Done) } else { None }
                }
                SentBody::File { region, is_copied } => match write_file(ctx, region, *is_copied) {
                    Ok(bytes) => {
                        self.written += bytes;
                        region.is_empty().then_some(SendStep::Done)
                    }
                    Err(error) => Some(SendStep::Failed(error)),
                },
                SentBody::Source(source) => source.advance(ctx, waker, &mut self.written),
            };
            if let Some(step) = step {
                return step;
            }
        }
        waker.wake_by_ref();
        SendStep::Waiting
    }
}

/// Writes the next piece of a region, and returns the number of bytes that were read for it; all of it if the kernel can
/// send it.
fn write_file(ctx: &Ctx<'_>, region: &mut FileRegion, is_copied: bool) -> Result<u64, Error> {
    if !is_copied {
        ctx.write_or_close(region.split_to(region.len()));
        return Ok(0);
    }
    let bytes = region.read(PIECE).map_err(Error::new)?;
    let read = bytes.len() as u64;
    region.advance(bytes.len());
    ctx.write_or_close(bytes);
    Ok(read)
}

impl SentSource {
    /// Takes a source whose length is announced, or that is sent in chunks.
    pub(super) fn new(source: Box<dyn BodySource>, length: Option<u64>, is_copied: bool) -> Self {
        let framing = length.map_or(SourceFraming::Chunked, SourceFraming::Length);
        Self { source, framing, is_copied, file: None }
    }

    /// Writes the rest of a file, or polls the source and writes what it has; adds the bytes to `written`. `None` if there
    /// may be more.
    fn advance(&mut self, ctx: &Ctx<'_>, waker: &Waker, written: &mut u64) -> Option<SendStep> {
        if let Some(mut region) = self.file.take() {
            return self.write_region(ctx, &mut region, written);
        }
        let chunk = match self.source.poll_chunk(&mut Context::from_waker(waker)) {
            Poll::Pending => return Some(SendStep::Waiting),
            Poll::Ready(Some(Ok(chunk))) => chunk,
            Poll::Ready(Some(Err(error))) => return Some(SendStep::Failed(error)),
            Poll::Ready(None) => return Some(self.end(ctx)),
        };
        if chunk.is_empty() {
            return None;
        }
        if let SourceFraming::Length(missing) = &mut self.framing {
            match missing.checked_sub(chunk.len()) {
                Some(rest) => *missing = rest,
                None => return Some(SendStep::Failed(Error::new(LengthMismatch::TooLong))),
            }
        }
        match chunk {
            BodyChunk::Bytes(bytes) => {
                *written += bytes.len() as u64;
                self.write_bytes(ctx, bytes);
                None
            }
            BodyChunk::File(mut region) => {
                self.write_chunk_start(ctx, region.len());
                self.write_region(ctx, &mut region, written)
            }
        }
    }

    fn write_bytes(&self, ctx: &Ctx<'_>, bytes: Bytes) {
        let is_chunk = matches!(self.framing, SourceFraming::Chunked);
        if is_chunk && bytes.len() <= COPIED_CHUNK {
            let mut copied = BytesMut::with_capacity(bytes.len() + 16);
            encode_chunk_start(bytes.len() as u64, &mut copied);
            copied.extend_from_slice(&bytes);
            copied.extend_from_slice(&CHUNK_END);
            return ctx.write_or_close(copied.freeze());
        }
        self.write_chunk_start(ctx, bytes.len() as u64);
        ctx.write_or_close(bytes);
        self.write_chunk_end(ctx);
    }

    fn write_region(
        &mut self,
        ctx: &Ctx<'_>,
        region: &mut FileRegion,
        written: &mut u64,
    ) -> Option<SendStep> {
        match write_file(ctx, region, self.is_copied) {
            Ok(bytes) => *written += bytes,
            Err(error) => return Some(SendStep::Failed(error)),
        }
        match region.is_empty() {
            true => self.write_chunk_end(ctx),
            false => self.file = Some(region.clone()),
        }
        None
    }

    fn write_chunk_start(&self, ctx: &Ctx<'_>, len: u64) {
        if let SourceFraming::Chunked = self.framing {
            let mut start = BytesMut::new();
            encode_chunk_start(len, &mut start);
            ctx.write_or_close(start.freeze());
        }
    }

    fn write_chunk_end(&self, ctx: &Ctx<'_>) {
        if let SourceFraming::Chunked = self.framing {
            ctx.write_or_close(CHUNK_END);
        }
    }

    fn end(&mut self, ctx: &Ctx<'_>) -> SendStep {
        match self.framing {
            SourceFraming::Length(0) => SendStep::Done,
            SourceFraming::Length(missing) => {
                SendStep::Failed(Error::new(LengthMismatch::TooShort { missing }))
            }
            SourceFraming::Chunked => {
                let mut end = BytesMut::new();
                encode_body_end(self.source.take_trailers().as_ref(), &mut end);
                ctx.write_or_close(end.freeze());
                SendStep::Done
            }
        }
    }
}
