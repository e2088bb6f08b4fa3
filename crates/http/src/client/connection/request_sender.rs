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

/// Writes the body of a request, as far as the channel has room.
pub(super) struct RequestSender {
    body: SentBody,
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
        Self { body, awaits_continue, is_blocked: false }
    }

    /// Writes while the channel has room. The caller flushes.
    pub(super) fn advance(&mut self, ctx: &Ctx<'_>, waker: &Waker) -> SendStep {
        self.is_blocked = false;
        if self.awaits_continue {
            return SendStep::Waiting;
        }
        loop {
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
                    ctx.write_or_close(piece);
                    if bytes.is_empty() { Some(SendStep::Done) } else { None }
                }
                SentBody::File { region, is_copied } => match write_file(ctx, region, *is_copied) {
                    Ok(()) if region.is_empty() => Some(SendStep::Done),
                    Ok(()) => None,
                    Err(error) => Some(SendStep::Failed(error)),
                },
                SentBody::Source(source) => source.advance(ctx, waker),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }
}

/// Writes the next piece of a region; all of it if the kernel can send it.
fn write_file(ctx: &Ctx<'_>, region: &mut FileRegion, is_copied: bool) -> Result<(), Error> {
    if !is_copied {
        ctx.write_or_close(region.split_to(region.len()));
        return Ok(());
    }
    let bytes = region.read(PIECE).map_err(Error::new)?;
    region.advance(bytes.len());
    ctx.write_or_close(bytes);
    Ok(())
}

impl SentSource {
    /// Takes a source whose length is announced, or that is sent in chunks.
    pub(super) fn new(source: Box<dyn BodySource>, length: Option<u64>, is_copied: bool) -> Self {
        let framing = length.map_or(SourceFraming::Chunked, SourceFraming::Length);
        Self { source, framing, is_copied, file: None }
    }

    /// Writes the rest of a file, or polls the source and writes what it has. `None` if there may be more.
    fn advance(&mut self, ctx: &Ctx<'_>, waker: &Waker) -> Option<SendStep> {
        if let Some(mut region) = self.file.take() {
            return self.write_region(ctx, &mut region);
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
                self.write_bytes(ctx, bytes);
                None
            }
            BodyChunk::File(mut region) => {
                self.write_chunk_start(ctx, region.len());
                self.write_region(ctx, &mut region)
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

    fn write_region(&mut self, ctx: &Ctx<'_>, region: &mut FileRegion) -> Option<SendStep> {
        if let Err(error) = write_file(ctx, region, self.is_copied) {
            return Some(SendStep::Failed(error));
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
