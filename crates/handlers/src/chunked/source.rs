//! Sources of chunks: the trait, iterators, closures, and files that the kernel sends.

use std::num::NonZeroU64;
use std::task::{Context, Poll};

use waterwheel_channel::{FileRegion, Msg};
use waterwheel_executor::Error;

use super::error::InvalidChunkOption;

/// A source of chunks for a [`ChunkedMessage`](super::ChunkedMessage). Polled on the channel's loop, dropped there,
/// and never called again after it has returned the end or an error.
///
/// A source that has to wait returns `Pending` and keeps the waker, as a future does; a wake from any thread resumes
/// it. A source must not block: for a blocking reader there are [`ReaderChunks`](super::ReaderChunks).
///
/// ```
/// use std::task::{Context, Poll};
/// use bytes::Bytes;
/// use waterwheel_channel::Msg;
/// use waterwheel_executor::Error;
/// use waterwheel_handlers::{ChunkSource, ChunkedMessage};
///
/// /// Counts down, one line per chunk.
/// struct Countdown(u32);
///
/// impl ChunkSource for Countdown {
///     fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Msg, Error>>> {
///         let Some(next) = self.0.checked_sub(1) else { return Poll::Ready(None) };
///         self.0 = next;
///         Poll::Ready(Some(Ok(Bytes::from(format!("{next}\n")).into())))
///     }
/// }
///
/// let message = ChunkedMessage::new(Countdown(3));
/// # drop(message);
/// ```
pub trait ChunkSource: Send + 'static {
    /// Returns the next chunk, a message of any type; `None` at the end. `Pending` if the source has to wait: then the
    /// waker of `cx` must be called when it can go on.
    ///
    /// Empty [`Bytes`](bytes::Bytes) and empty [`FileRegion`]s are skipped: to many encoders an empty message means
    /// something.
    ///
    /// # Errors
    /// The source cannot go on. The write fails with [`ChunkedWriteError::Source`](super::ChunkedWriteError::Source).
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Msg, Error>>>;

    /// Returns how many bytes the source has in total, if known. Called once, before the first chunk; for
    /// [progress](super::TransferProgress) alone.
    fn total_bytes(&self) -> Option<u64> {
        None
    }
}

/// Chunks of an iterator that cannot fail.
pub(super) struct IteratorChunks<I>(pub(super) I);

impl<I, M> ChunkSource for IteratorChunks<I>
where
    I: Iterator<Item = M> + Send + 'static,
    M: Into<Msg>,
{
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Msg, Error>>> {
        Poll::Ready(self.0.next().map(|chunk| Ok(chunk.into())))
    }
}

/// Chunks that a closure returns.
pub(super) struct PolledChunks<F>(pub(super) F);

impl<F, M> ChunkSource for PolledChunks<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Result<M, Error>>> + Send + 'static,
    M: Into<Msg>,
{
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Msg, Error>>> {
        (self.0)(cx).map(|next| next.map(|chunk| chunk.map(Into::into)))
    }
}

/// Chunks of a file, as [`FileRegion`]s: the kernel sends them (sendfile) where the transport can, and no byte enters
/// this process. For pipelines whose handlers need the bytes, such as TLS or compression, use
/// [`ReaderChunks::of_file`](super::ReaderChunks::of_file).
///
/// The pieces make no difference on the wire. They are the steps in which [progress](super::TransferProgress) is
/// reported, and after which other channels of the loop have their turn.
///
/// ```
/// use std::fs::File;
/// use waterwheel_channel::FileRegion;
/// use waterwheel_handlers::{ChunkedMessage, FileChunks};
///
/// // The bytes 10 to 19 of a file, as for an HTTP range.
/// let region = FileRegion::new(File::open("Cargo.toml")?, 10..20)?;
/// let message = ChunkedMessage::new(FileChunks::new(region));
/// # drop(message);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileChunks {
    rest: FileRegion,
    piece_len: NonZeroU64,
}

impl FileChunks {
    /// The default length of a piece: 1 MiB, as much as a driver sends in one call.
    pub const DEFAULT_PIECE_LEN: u64 = 1024 * 1024;

    /// Returns the chunks of a part of a file.
    #[must_use]
    pub fn new(region: FileRegion) -> Self {
        Self {
            rest: region,
            piece_len: const { NonZeroU64::new(Self::DEFAULT_PIECE_LEN).unwrap() },
        }
    }

    /// Sets the length of a piece.
    ///
    /// # Errors
    /// The length is zero.
    pub fn piece_len(mut self, len: u64) -> Result<Self, InvalidChunkOption> {
        self.piece_len = NonZeroU64::new(len).ok_or(InvalidChunkOption { option: "piece_len" })?;
        Ok(self)
    }
}

impl ChunkSource for FileChunks {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Msg, Error>>> {
        let piece = self.rest.split_to(self.rest.len().min(self.piece_len.get()));
        Poll::Ready((!piece.is_empty()).then(|| Ok(piece.into())))
    }

    fn total_bytes(&self) -> Option<u64> {
        Some(self.rest.len())
    }
}
