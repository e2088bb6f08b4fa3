//! The body of an answer that is streamed.

use std::task::{Context, Poll};

use bytes::BufMut;
use waterwheel_channel::FileRegion;
use waterwheel_executor::engine::{drop_in_turn, run_user_code};
use waterwheel_executor::{Error, Origin, UserCode};

use crate::body::source::{BodyChunk, BodySource};
use crate::outbound::output::Output;
use crate::protocol::encoder::{encode_body_end, encode_chunk_start};
use crate::protocol::framing::BodyFraming;

/// Writes the chunks of a source while the channel has room.
pub(super) struct BodyWriter {
    source: Box<dyn BodySource>,
    framing: BodyFraming,
    /// The bytes that have been written.
    written: u64,
    /// The rest of a file that is read in pieces.
    file: Option<FileRegion>,
    /// True if files are written as they are, for the kernel to send.
    passes_files: bool,
}

/// The outcome of a turn of writing.
pub(super) enum WriteOutcome {
    /// The body is written.
    Done,
    /// The source has to wait, or the channel has no room.
    Waits,
    /// The turn is over, others come first.
    Yields,
    /// The body cannot be completed.
    Failed(Error),
}

/// The most chunks of one turn, empty ones included.
const CHUNKS_PER_TURN: u32 = 64;

/// The most bytes of one turn: a channel with much room does not keep others waiting.
const BYTES_PER_TURN: u64 = 256 * 1024;

/// The size of the pieces in which a file is read.
const FILE_PIECE: usize = 64 * 1024;

/// The error of a source that does not keep to the length it has announced.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the body of a response has announced {announced} bytes, and its chunks have {found} so far"
)]
struct WrongLength {
    announced: u64,
    found: u64,
}

impl BodyWriter {
    pub(super) fn new(
        source: Box<dyn BodySource>,
        framing: BodyFraming,
        passes_files: bool,
    ) -> Self {
        Self { source, framing, written: 0, file: None, passes_files }
    }

    /// Writes a file in pieces that are read on the loop, for pipelines that need the bytes.
    pub(super) fn of_file(region: FileRegion, framing: BodyFraming) -> Self {
        let mut writer = Self::new(Box::new(NoChunks), framing, false);
        writer.file = Some(region);
        writer
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Writes as much as the channel has room for.
    pub(super) fn write(
        &mut self,
        cx: &mut Context<'_>,
        origin: Origin,
        out: &mut Output<'_>,
    ) -> WriteOutcome {
        let end = self.written.saturating_add(BYTES_PER_TURN);
        for _ in 0..CHUNKS_PER_TURN {
            // What is collected counts too, or a channel could never become unwritable.
            if out.small_parts().len() > FILE_PIECE / 16 {
                out.pass_on();
            }
            if !out.ctx().is_writable() {
                return WriteOutcome::Waits;
            }
            if self.written >= end {
                return WriteOutcome::Yields;
            }
            let next = match self.next_file_piece() {
                Some(piece) => Poll::Ready(Some(piece)),
                None => {
                    match run_user_code(UserCode::Future, origin, || self.source.poll_chunk(cx)) {
                        Ok(next) => next,
                        Err(panicked) => return WriteOutcome::Failed(panicked),
                    }
                }
            };
            match next {
                Poll::Pending => return WriteOutcome::Waits,
                Poll::Ready(Some(Ok(chunk))) => {
                    if let Err(error) = self.write_chunk(chunk, out) {
                        return WriteOutcome::Failed(error);
                    }
                }
                Poll::Ready(Some(Err(error))) => return WriteOutcome::Failed(error),
                Poll::Ready(None) => return self.finish(origin, out),
            }
        }
        WriteOutcome::Yields
    }

    /// Reads the next piece of a file that is not sent by the kernel.
    fn next_file_piece(&mut self) -> Option<Result<BodyChunk, Error>> {
        let file = self.file.as_mut()?;
        let piece = file.read(FILE_PIECE).map_err(Error::from);
        if let Ok(bytes) = &piece {
            file.advance(bytes.len());
        }
        if piece.is_err() || file.is_empty() {
            self.file = None;
        }
        Some(piece.map(BodyChunk::Bytes))
    }

    fn write_chunk(&mut self, chunk: BodyChunk, out: &mut Output<'_>) -> Result<(), Error> {
        let chunk = match chunk {
            BodyChunk::File(region) if !self.passes_files => {
                self.file = (!region.is_empty()).then_some(region);
                return Ok(());
            }
            chunk if chunk.is_empty() => return Ok(()),
            chunk => chunk,
        };
        let len = chunk.len();
        self.written += len;
        if let BodyFraming::Length(announced) = self.framing
            && self.written > announced
        {
            return Err(Error::new(WrongLength { announced, found: self.written }));
        }
        let is_chunked = self.framing == BodyFraming::Chunked;
        if is_chunked {
            encode_chunk_start(len, out.small_parts());
        }
        match chunk {
            BodyChunk::Bytes(bytes) => out.write_bytes(bytes),
            BodyChunk::File(region) => out.write_part(len, region),
        }
        if is_chunked {
            out.small_parts().put_slice(b"\r\n");
        }
        Ok(())
    }

    fn finish(&mut self, origin: Origin, out: &mut Output<'_>) -> WriteOutcome {
        match self.framing {
            BodyFraming::Chunked => {
                let take_trailers = || self.source.take_trailers();
                match run_user_code(UserCode::Future, origin, take_trailers) {
                    Ok(trailers) => encode_body_end(trailers.as_ref(), out.small_parts()),
                    Err(panicked) => return WriteOutcome::Failed(panicked),
                }
            }
            BodyFraming::Length(announced) if self.written < announced => {
                let found = self.written;
                return WriteOutcome::Failed(Error::new(WrongLength { announced, found }));
            }
            _ => {}
        }
        WriteOutcome::Done
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        let source = std::mem::replace(&mut self.source, Box::new(NoChunks));
        drop_in_turn(source);
    }
}

/// A source without chunks.
struct NoChunks;

impl BodySource for NoChunks {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        Poll::Ready(None)
    }
}
