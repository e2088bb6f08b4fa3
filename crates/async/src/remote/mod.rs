//! A channel as a stream and a sink of messages, for code on any thread and any runtime: the `Send` form of
//! [`AsyncChannel`].
//!
//! ```text
//!            the loop                                          any thread
//!   pipeline ⇄ bridge ⇄ Relay ──── rounds of messages ───► RemoteAsyncReader
//!                             ◄─── queue of writes ─────── RemoteAsyncWriter
//!                             └──────── Exchange ────────┘
//! ```
//!
//! Rules, besides those of the bridge:
//! 1. *Reads on demand.* A reader that has nothing asks for a round, by one command; the messages of that round cross
//!    the threads as one queue, under one lock, and wake the reader once. The drain of the loop is held while the
//!    reader works on them.
//! 2. *Back-pressure.* A write waits while the channel is not writable, and while
//!    [`MAX_QUEUED_BYTES`](exchange::MAX_QUEUED_BYTES) or [`MAX_QUEUED_MESSAGES`](exchange::MAX_QUEUED_MESSAGES) are on
//!    their way to the loop.
//! 3. *Costs.* A round costs one command. Messages that are sent while a batch is on its way join it: one command for
//!    all of them. A `feed` sends no command. A command does not allocate; a message other than `Bytes` is boxed, as by
//!    any write; the queues keep their capacity.
//! 4. *The end.* When the relay ends, because the channel is closed or because its loop ends or dies, every call that
//!    waits completes, and later ones fail with an error that says so.

mod exchange;
#[cfg(feature = "futures")]
mod futures_traits;
mod halves;
#[cfg(all(loom, test))]
mod models;
mod relay;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use waterwheel_channel::{Channel, Edit, Message};
use waterwheel_executor::{Error, Origin};

use self::exchange::Exchange;
pub use self::halves::{RemoteAsyncReader, RemoteAsyncWriter};
use self::relay::Relay;
use crate::channel::AsyncChannel;

/// A channel as async code on any thread sees it, whatever runtime polls it: a task of tokio, a future on another loop,
/// a `block_on`. The `Send` form of [`AsyncChannel`], with the same behaviour; on the channel's own loop that one is
/// cheaper.
///
/// Made by [`AsyncChannel::into_remote`] or [`install`](Self::install) on the channel's loop, by [`of`](Self::of) on
/// any thread for a channel that runs, and by [`connect_remote`](crate::ConnectAsync::connect_remote) for a client.
///
/// - Nothing is read that nobody waits for. The messages of one round of reads come together, with one command to the
///   loop for all of them.
/// - A message that is sent waits while the channel is not writable, or 64 KiB or 1024 messages are on their way to its
///   loop.
/// - When the channel is closed, or its loop ends or dies, every call that waits completes, and later ones fail.
/// - Dropping the value closes the channel, after what was written.
///
/// With the feature `futures` it is a `Stream` of `Result<In, Error>` and a `Sink<Out>`.
///
/// ```
/// use waterwheel_async::RemoteAsyncChannel;
/// use waterwheel_executor::Error;
///
/// /// Runs in a task of any runtime.
/// async fn echo(mut connection: RemoteAsyncChannel<String>) -> Result<(), Error> {
///     while let Some(line) = connection.next().await {
///         connection.send(line?).await?;
///     }
///     Ok(())
/// }
/// ```
pub struct RemoteAsyncChannel<In: Message, Out: Message = In> {
    // Dropped in this order: the writer, as the last half, closes the channel.
    reader: RemoteAsyncReader<In>,
    writer: RemoteAsyncWriter<Out, In>,
}

impl<In: Message, Out: Message> RemoteAsyncChannel<In, Out> {
    /// Adds the end of a pipeline, in an initialiser or in an edit of a pipeline: see [`AsyncChannel::install`].
    ///
    /// # Errors
    /// As `AsyncChannel::install`.
    #[track_caller]
    pub fn install(edit: &mut Edit<'_>) -> Result<Self, Error> {
        AsyncChannel::install(edit).map(AsyncChannel::into_remote)
    }

    /// Takes over a channel that runs, from any thread: see [`AsyncChannel::of`].
    ///
    /// If the future is dropped before it was polled, nothing has happened; otherwise the channel may be closed.
    ///
    /// # Errors
    /// As `AsyncChannel::of`; or the loop has ended.
    pub async fn of(channel: &Channel) -> Result<Self, Error> {
        channel.with_pipeline(|pipeline| pipeline.edit(Self::install)).await?
    }

    /// Waits for the next message. `None` is the end of the input: the peer has finished, or the channel is closed.
    /// `Some(Err(…))` is an error of the pipeline, such as a frame that is too long, or the cause of the close, such as
    /// the end of the loop.
    ///
    /// Cancel safe: a message is taken out only when it is returned. Messages that were asked for by a call that was
    /// dropped come with the next one.
    pub async fn next(&mut self) -> Option<Result<In, Error>> {
        self.reader.next().await
    }

    /// Waits for the next message as [`next`](Self::next) does, with the error outside: for `?`.
    ///
    /// # Errors
    /// As `next`.
    pub async fn try_next(&mut self) -> Result<Option<In>, Error> {
        self.reader.try_next().await
    }

    /// Waits for room, then sends a message to the loop, which writes and flushes it. Returns before it does: an error
    /// of this write is told by a later [`send`](Self::send), [`feed`](Self::feed) or [`flush`](Self::flush).
    ///
    /// Cancel safe in this sense: if the future is dropped before it completes, nothing of the message was sent.
    ///
    /// # Errors
    /// The channel is closed, its loop has ended, or a message that was sent before has failed.
    pub async fn send(&mut self, message: Out) -> Result<(), Error> {
        self.writer.send(message).await
    }

    /// Waits for room, then queues a message, for a later [`send`](Self::send) or [`flush`](Self::flush). The loop is
    /// not woken for it. Cancel safe as `send`.
    ///
    /// # Errors
    /// As `send`.
    pub async fn feed(&mut self, message: Out) -> Result<(), Error> {
        self.writer.feed(message).await
    }

    /// Flushes, and waits until every message was handed to the transport. Cancel safe: the flush itself is requested
    /// by the first poll.
    ///
    /// # Errors
    /// A write has failed; or the channel was closed, or its loop has ended, before everything was written.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().await
    }

    /// Waits until the channel's loop begins to drain, or has ended: time to finish, and to begin nothing new. Cancel
    /// safe.
    pub async fn draining(&mut self) {
        self.reader.draining().await;
    }

    /// True if the channel's loop is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.reader.is_draining()
    }

    /// Returns the channel: its addresses, attributes and options.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        self.reader.channel()
    }

    /// Splits the channel, for a task that reads and one that writes. Dropping the writer shuts down the output;
    /// dropping both closes the channel.
    #[must_use]
    pub fn split(self) -> (RemoteAsyncReader<In>, RemoteAsyncWriter<Out, In>) {
        (self.reader, self.writer)
    }
}

impl<In: Message, Out: Message> AsyncChannel<In, Out> {
    /// Turns the channel into a value that any thread and any runtime can use. A future in the channel's
    /// [scope](Self::scope) works for it from now on; messages that were read already are not lost.
    #[track_caller]
    #[must_use]
    pub fn into_remote(self) -> RemoteAsyncChannel<In, Out> {
        let (channel, scope) = (self.channel().clone(), self.scope().clone());
        let exchange = Arc::new(Exchange::new());
        let (reader, writer) = self.split();
        let mut relay = Relay::new(reader, writer, exchange.clone());
        scope.spawn_from(Origin::here(), poll_fn(move |context| relay.poll(context)));
        RemoteAsyncChannel {
            reader: RemoteAsyncReader::new(channel.clone(), exchange.clone()),
            writer: RemoteAsyncWriter::new(channel, exchange),
        }
    }
}

impl<In: Message, Out: Message> fmt::Debug for RemoteAsyncChannel<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteAsyncChannel").field(self.channel()).finish()
    }
}
