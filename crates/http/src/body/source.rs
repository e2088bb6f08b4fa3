//! Sources of bodies: what a streamed body is made of.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use waterwheel_channel::FileRegion;
use waterwheel_executor::Error;

/// A part of a body that is sent.
#[derive(Debug)]
pub enum BodyChunk {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A part of a file, which the kernel sends without reading it into memory (sendfile) where the pipeline allows it.
    File(FileRegion),
}

impl BodyChunk {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(region) => region.len(),
        }
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for BodyChunk {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

/// A streamed body. Polled on the channel's loop while the channel has room, and dropped there: need not be `Send`.
///
/// A source that has to wait returns `Pending` and keeps the waker, as a future does. A source must not block.
///
/// ```
/// use std::task::{Context, Poll};
/// use bytes::Bytes;
/// use waterwheel_executor::Error;
/// use waterwheel_http::{Body, BodyChunk, BodySource};
///
/// /// Counts down, one line per chunk.
/// struct Countdown(u32);
///
/// impl BodySource for Countdown {
///     fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
///         let Some(next) = self.0.checked_sub(1) else { return Poll::Ready(None) };
///         self.0 = next;
///         Poll::Ready(Some(Ok(Bytes::from(format!("{next}\n")).into())))
///     }
/// }
///
/// let body = Body::from_source(Countdown(3));
/// # drop(body);
/// ```
pub trait BodySource: 'static {
    /// Returns the next chunk; `None` at the end. Not called again after the end or an error. Empty chunks are skipped.
    ///
    /// # Errors
    /// The source cannot go on. The head of the message may have been sent, so the connection is closed: the peer sees
    /// that the body is not complete.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>>;

    /// Returns the exact number of bytes of all chunks, if known. Called once, before the first chunk. With a length the
    /// message has a Content-Length, without one it is sent in chunks.
    fn exact_len(&self) -> Option<u64> {
        None
    }

    /// Returns the fields that follow a body in chunks. Called after the end.
    fn take_trailers(&mut self) -> Option<HeaderMap> {
        None
    }
}

/// A source that calls a closure.
struct PolledSource<F>(F);

impl<F> BodySource for PolledSource<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> + 'static,
{
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        (self.0)(cx).map(|next| next.map(|chunk| chunk.map(BodyChunk::Bytes)))
    }
}

/// Makes a source of a closure that is polled: the form of streams of other crates.
pub fn poll_source<F>(poll: F) -> impl BodySource
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> + 'static,
{
    PolledSource(poll)
}
