//! `ChunkedMessage`: the message that a chunked write begins with.

use std::fmt;
use std::task::{Context, Poll};

use waterwheel_channel::{Message, Msg};
use waterwheel_executor::Error;

use super::source::{ChunkSource, IteratorChunks, PolledChunks};

/// A message in chunks, from a source that is asked for the next one while the channel has room. Written like any
/// other message, to a pipeline with a [`ChunkedWriter`](super::ChunkedWriter).
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_handlers::{ChunkedMessage, ChunkedWriter};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::new(|edit| {
///     edit.add_last("chunks", ChunkedWriter::new())?;
///     Ok(())
/// })?;
/// let words = ["one", "two", "three"].map(Bytes::from);
/// channel.write_outbound(ChunkedMessage::from_chunks(words)).join()?;
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "one");
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[must_use = "a message is sent when it is written to a channel"]
pub struct ChunkedMessage {
    pub(super) source: Box<dyn ChunkSource>,
    pub(super) total: Option<u64>,
    pub(super) on_progress: Option<ProgressCallback>,
    pub(super) keeps_open: bool,
}

pub(super) type ProgressCallback = Box<dyn FnMut(TransferProgress) + Send>;

impl ChunkedMessage {
    /// The pending bytes that a chunked message counts for while it waits: 8 KiB, as a
    /// [`FileRegion`](waterwheel_channel::FileRegion) does. Its source may keep a file or a thread busy; the water
    /// marks limit how many wait.
    pub const PENDING_BYTES: usize = 8 * 1024;

    /// Returns a message with the chunks of a source.
    pub fn new(source: impl ChunkSource) -> Self {
        let total = source.total_bytes();
        Self { source: Box::new(source), total, on_progress: None, keeps_open: false }
    }

    /// Returns a message with the chunks of an iterator: [`Bytes`](bytes::Bytes), or messages of any type. The iterator
    /// is called on the loop and must not block.
    pub fn from_chunks<I>(chunks: I) -> Self
    where
        I: IntoIterator<Item: Into<Msg>, IntoIter: Send + 'static>,
    {
        Self::new(IteratorChunks(chunks.into_iter()))
    }

    /// Returns a message whose chunks a closure returns, as [`ChunkSource::poll_chunk`] does. Adapts an asynchronous
    /// stream of any library:
    ///
    /// ```
    /// # use std::pin::Pin;
    /// # use std::task::{Context, Poll};
    /// # use bytes::Bytes;
    /// # use waterwheel_executor::Error;
    /// # use waterwheel_handlers::ChunkedMessage;
    /// # trait Stream { type Item; fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>>; }
    /// fn send(stream: impl Stream<Item = Result<Bytes, Error>> + Send + 'static) -> ChunkedMessage {
    ///     let mut stream = Box::pin(stream);
    ///     ChunkedMessage::from_poll(move |cx| stream.as_mut().poll_next(cx))
    /// }
    /// ```
    pub fn from_poll<M: Into<Msg>>(
        poll: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<M, Error>>> + Send + 'static,
    ) -> Self {
        Self::new(PolledChunks(poll))
    }

    /// Calls `callback` on the loop whenever a chunk was written by the transport, before the write completes. A panic
    /// of the callback is reported; then it is not called again.
    pub fn on_progress(mut self, callback: impl FnMut(TransferProgress) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(callback));
        self
    }

    /// Sets the total number of bytes, for [progress](TransferProgress) alone, if the source does not know it.
    pub fn total_bytes(mut self, total: u64) -> Self {
        self.total = Some(total);
        self
    }

    /// Keeps the channel open if the write fails after its first chunk was passed on. By default the channel is closed
    /// then, because the peer cannot know that the rest is missing. For protocols whose frames show it.
    pub fn keep_open_on_failure(mut self) -> Self {
        self.keeps_open = true;
        self
    }
}

impl Message for ChunkedMessage {
    fn size_hint(&self) -> usize {
        Self::PENDING_BYTES
    }
}

impl fmt::Debug for ChunkedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkedMessage").field("total", &self.total).finish_non_exhaustive()
    }
}

/// How much of a chunked write was written by the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferProgress {
    /// The bytes of the written chunks: lengths of bytes and of file regions, and the
    /// [`size_hint`](Message::size_hint) of other messages.
    pub bytes: u64,
    /// The number of written chunks.
    pub chunks: u64,
    /// The number of bytes in total, if known.
    pub total_bytes: Option<u64>,
}
