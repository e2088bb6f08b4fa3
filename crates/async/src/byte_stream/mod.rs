//! A channel of bytes as a stream for code that is written against `AsyncRead` and `AsyncWrite`.
//!
//! The traits differ in their buffers only; `poll_fill`, `consume`, `poll_write_slices`, `poll_flush` and
//! `poll_shutdown` of [`ByteStream`] are what all of them call.

#[cfg(feature = "futures")]
mod futures_io;
#[cfg(feature = "hyper")]
mod hyper_io;
#[cfg(feature = "tokio")]
mod tokio_io;

use std::fmt;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use waterwheel_channel::{Channel, Edit};
use waterwheel_executor::Error;

use crate::channel::AsyncChannel;

/// The number of bytes that one write takes at most, as a kernel's socket buffer would.
const MAX_WRITE: usize = 64 * 1024;

/// The bytes of a channel, for code that reads and writes through the traits of other libraries: `AsyncRead`,
/// `AsyncBufRead` and `AsyncWrite` of `futures` and of tokio, `Read` and `Write` of hyper (features `futures`, `tokio`,
/// `hyper`). On the channel's loop only; not `Send`.
///
/// - A read copies out of the buffer that the channel has read; the traits that lend a buffer (`AsyncBufRead`) and
///   [`next_bytes`](Self::next_bytes) copy nothing.
/// - A write copies once, and is sent at once, as with a socket; small writes that are to share a packet go through a
///   buffered writer. It waits while the channel is not writable.
/// - Bytes that a handler of the pipeline refuses are reported, and missing for the peer: a `ByteStream` stands behind
///   handlers that accept any bytes, such as TLS.
/// - A flush waits until everything was handed to the transport. A shutdown flushes and shuts down the output.
/// - All of them are cancel safe: nothing is taken or sent by a call that returns `Pending`.
/// - Dropping the stream closes the channel, after what was written.
///
/// ```
/// use waterwheel_async::{AsyncChannel, ByteStream};
/// use waterwheel_executor::Error;
///
/// async fn count(connection: AsyncChannel<bytes::Bytes>) -> Result<usize, Error> {
///     let mut stream = ByteStream::new(connection);
///     let mut count = 0;
///     while let Some(bytes) = stream.next_bytes().await? {
///         count += bytes.len();
///     }
///     Ok(count)
/// }
/// ```
pub struct ByteStream {
    channel: AsyncChannel<Bytes>,
    /// The bytes that were read from the channel and not by the caller.
    unread: Bytes,
    flush: FlushState,
    shutdown: ShutdownState,
}

/// The writes that a flush has to wait for. Writes have no completion of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlushState {
    Flushed,
    /// Bytes were written since the last flush.
    Written,
    /// An empty message is on its way behind the bytes.
    Marked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownState {
    NotRequested,
    Requested,
}

impl ByteStream {
    /// Reads and writes the bytes of this channel.
    #[must_use]
    pub fn new(channel: AsyncChannel<Bytes>) -> Self {
        let (flush, shutdown) = (FlushState::Flushed, ShutdownState::NotRequested);
        Self { channel, unread: Bytes::new(), flush, shutdown }
    }

    /// Adds the end of a pipeline: see [`AsyncChannel::install`].
    ///
    /// # Errors
    /// As `AsyncChannel::install`.
    pub fn install(edit: &mut Edit<'_>) -> Result<Self, Error> {
        AsyncChannel::install(edit).map(Self::new)
    }

    /// Waits for bytes, and returns them without a copy; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// An error of the pipeline, or the cause of the close.
    pub async fn next_bytes(&mut self) -> Result<Option<Bytes>, Error> {
        if !self.unread.is_empty() {
            return Ok(Some(std::mem::take(&mut self.unread)));
        }
        self.channel.try_next().await
    }

    /// Returns the channel and the bytes that were read from it and not by the caller.
    #[must_use]
    pub fn into_parts(self) -> (AsyncChannel<Bytes>, Bytes) {
        (self.channel, self.unread)
    }

    /// Returns the channel: its addresses, attributes and options.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        self.channel.channel()
    }
}

/// The calls that the traits are made of.
#[cfg_attr(
    not(any(feature = "futures", feature = "hyper", feature = "tokio")),
    allow(dead_code, reason = "without a feature there is no trait that calls them")
)]
impl ByteStream {
    /// Waits for bytes, unless some are unread, and returns them; none at the end.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        while self.unread.is_empty() {
            match ready!(self.channel.reader_mut().poll_next_item(context)) {
                Some(Ok(bytes)) => self.unread = bytes,
                Some(Err(error)) => return Poll::Ready(Err(to_io_error(error))),
                None => break,
            }
        }
        Poll::Ready(Ok(&self.unread))
    }

    fn consume(&mut self, count: usize) {
        self.unread.advance(count);
        if self.unread.is_empty() {
            self.unread = Bytes::new(); // Releases the buffer it was read into.
        }
    }

    /// Writes and flushes, as much as a write takes at most. Waits while the channel is not writable.
    fn poll_write_slices<'a>(
        &mut self,
        context: &mut Context<'_>,
        slices: impl Iterator<Item = &'a [u8]>,
    ) -> Poll<io::Result<usize>> {
        if self.shutdown == ShutdownState::Requested {
            let shut = io::Error::new(io::ErrorKind::BrokenPipe, "the output was shut down");
            return Poll::Ready(Err(shut));
        }
        let written = ready!(self.channel.state().poll_with_room(context, |ctx| {
            let bytes = copy_slices(slices);
            let count = bytes.len();
            if count > 0 {
                ctx.write_and_flush(bytes);
            }
            count
        }));
        if written.as_ref().is_ok_and(|count| *count > 0) {
            self.flush = FlushState::Written;
        }
        Poll::Ready(written.map_err(to_io_error))
    }

    /// Waits until everything was handed to the transport.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = self.channel.state();
        if self.flush == FlushState::Written && self.shutdown == ShutdownState::NotRequested {
            if state.is_flushed() || state.send_now() {
                self.flush = FlushState::Flushed;
                return Poll::Ready(Ok(()));
            }
            state.write(Bytes::new(), true).map_err(to_io_error)?;
            self.flush = FlushState::Marked;
        }
        ready!(state.poll_flush(context)).map_err(to_io_error)?;
        self.flush = FlushState::Flushed;
        Poll::Ready(Ok(()))
    }

    /// Flushes, shuts down the output, and waits for it.
    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = self.channel.state();
        if self.shutdown == ShutdownState::NotRequested {
            self.shutdown = ShutdownState::Requested;
            state.shutdown_output();
        }
        state.poll_flush(context).map_err(to_io_error)
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByteStream").field(self.channel()).finish()
    }
}

/// Copies at most [`MAX_WRITE`] bytes.
fn copy_slices<'a>(mut slices: impl Iterator<Item = &'a [u8]>) -> Bytes {
    let first = slices.next().unwrap_or_default();
    let first = &first[..first.len().min(MAX_WRITE)];
    let Some(second) = slices.next() else { return Bytes::copy_from_slice(first) };
    let mut copied = Vec::with_capacity((first.len() + second.len()).min(MAX_WRITE));
    copied.extend_from_slice(first);
    for slice in std::iter::once(second).chain(slices) {
        let room = MAX_WRITE.saturating_sub(copied.len());
        copied.extend_from_slice(&slice[..slice.len().min(room)]);
    }
    copied.into()
}

/// Returns the error as those traits have it: the kernel's, if that is the cause.
fn to_io_error(error: Error) -> io::Error {
    let kind = match error.find::<io::Error>() {
        Some(cause) => cause.kind(),
        None if error.is_closed() => io::ErrorKind::BrokenPipe,
        None => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
