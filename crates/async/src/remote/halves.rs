//! The two halves of a `RemoteAsyncChannel`.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use waterwheel_channel::{Channel, Message, Msg};
use waterwheel_executor::Error;

use super::exchange::Exchange;
use crate::bridge::round_queue::RoundQueue;

/// The reading half of a [`RemoteAsyncChannel`](crate::RemoteAsyncChannel).
pub struct RemoteAsyncReader<In: Message> {
    channel: Channel,
    exchange: Arc<Exchange<In>>,
    /// The messages of the last round, which were taken over as one.
    round: RoundQueue<In>,
}

impl<In: Message> RemoteAsyncReader<In> {
    pub(super) fn new(channel: Channel, exchange: Arc<Exchange<In>>) -> Self {
        Self { channel, exchange, round: RoundQueue::default() }
    }

    /// Waits for the next message: see [`RemoteAsyncChannel::next`](crate::RemoteAsyncChannel::next). Cancel safe.
    pub async fn next(&mut self) -> Option<Result<In, Error>> {
        poll_fn(|context| self.poll_next_item(context)).await
    }

    /// Waits for the next message: see [`RemoteAsyncChannel::try_next`](crate::RemoteAsyncChannel::try_next). Cancel
    /// safe.
    ///
    /// # Errors
    /// An error of the pipeline, or the cause of the close.
    pub async fn try_next(&mut self) -> Result<Option<In>, Error> {
        self.next().await.transpose()
    }

    /// Waits until the channel's loop begins to drain, or has ended. Cancel safe.
    pub async fn draining(&mut self) {
        poll_fn(|context| self.exchange.poll_draining(context)).await;
    }

    /// True if the channel's loop is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.exchange.is_draining()
    }

    /// Returns the channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(super) fn poll_next_item(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<In, Error>>> {
        if self.round.is_empty() {
            ready!(self.exchange.poll_round(context, &mut self.round));
        }
        Poll::Ready(self.round.pop())
    }
}

/// Messages are moved, never pinned.
impl<In: Message> Unpin for RemoteAsyncReader<In> {}

impl<In: Message> Drop for RemoteAsyncReader<In> {
    fn drop(&mut self) {
        self.exchange.drop_reader();
    }
}

impl<In: Message> fmt::Debug for RemoteAsyncReader<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteAsyncReader").field(&self.channel).finish()
    }
}

/// The writing half of a [`RemoteAsyncChannel`](crate::RemoteAsyncChannel). `In` is the type that the other half reads.
pub struct RemoteAsyncWriter<Out: Message, In: Message = Out> {
    channel: Channel,
    exchange: Arc<Exchange<In>>,
    writes: PhantomData<fn(Out)>,
}

impl<Out: Message, In: Message> RemoteAsyncWriter<Out, In> {
    pub(super) fn new(channel: Channel, exchange: Arc<Exchange<In>>) -> Self {
        Self { channel, exchange, writes: PhantomData }
    }

    /// Waits for room, then sends a message: see [`RemoteAsyncChannel::send`](crate::RemoteAsyncChannel::send). Nothing
    /// was sent if it is dropped before it completes.
    ///
    /// # Errors
    /// The channel is closed, its loop has ended, or a message that was sent before has failed.
    pub async fn send(&mut self, message: Out) -> Result<(), Error> {
        poll_fn(|context| self.poll_room(context)).await?;
        self.write(message, true)
    }

    /// Waits for room, then queues a message: see [`RemoteAsyncChannel::feed`](crate::RemoteAsyncChannel::feed). Nothing
    /// was queued if it is dropped before it completes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn feed(&mut self, message: Out) -> Result<(), Error> {
        poll_fn(|context| self.poll_room(context)).await?;
        self.write(message, false)
    }

    /// Flushes, and waits until every message was handed to the transport. Cancel safe.
    ///
    /// # Errors
    /// A write has failed.
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|context| self.poll_flushed(context)).await
    }

    /// Flushes, and shuts down the output: the peer reads end-of-stream, and this side may go on reading.
    pub fn finish(self) {
        drop(self);
    }

    /// Returns the channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(super) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.exchange.poll_room(context)
    }

    pub(super) fn poll_flushed(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.exchange.poll_flush(context)
    }

    pub(super) fn write(&mut self, message: Out, flush: bool) -> Result<(), Error> {
        self.exchange.push(Msg::from(message), flush)
    }
}

impl<Out: Message, In: Message> Drop for RemoteAsyncWriter<Out, In> {
    fn drop(&mut self) {
        self.exchange.drop_writer();
    }
}

impl<Out: Message, In: Message> fmt::Debug for RemoteAsyncWriter<Out, In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteAsyncWriter").field(&self.channel).finish()
    }
}
