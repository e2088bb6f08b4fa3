//! The two halves of an `AsyncChannel`.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::rc::Rc;
use std::task::{Context, Poll};

use waterwheel_channel::{Channel, Message};
use waterwheel_executor::Error;

use crate::bridge::drain_signal::DrainSignal;
use crate::bridge::state::BridgeState;

/// The reading half of an [`AsyncChannel`](crate::AsyncChannel).
pub struct AsyncReader<In: Message> {
    state: Rc<BridgeState<In>>,
}

impl<In: Message> AsyncReader<In> {
    pub(super) fn new(state: Rc<BridgeState<In>>) -> Self {
        Self { state }
    }

    pub(crate) fn state(&self) -> &Rc<BridgeState<In>> {
        &self.state
    }

    /// Waits for the next message: see [`AsyncChannel::next`](crate::AsyncChannel::next). Cancel safe.
    pub async fn next(&mut self) -> Option<Result<In, Error>> {
        poll_fn(|context| self.poll_next_item(context)).await
    }

    /// Waits for the next message: see [`AsyncChannel::try_next`](crate::AsyncChannel::try_next). Cancel safe.
    ///
    /// # Errors
    /// An error of the pipeline, or the cause of the close.
    pub async fn try_next(&mut self) -> Result<Option<In>, Error> {
        self.next().await.transpose()
    }

    /// Waits until the loop begins to drain: see [`AsyncChannel::draining`](crate::AsyncChannel::draining).
    pub fn draining(&self) -> DrainSignal {
        self.state.drain_signal()
    }

    /// True if the loop is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.state.is_draining()
    }

    /// Returns the channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        self.state.channel()
    }

    pub(crate) fn poll_next_item(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<In, Error>>> {
        self.state.poll_next(context)
    }
}

impl<In: Message> Drop for AsyncReader<In> {
    fn drop(&mut self) {
        self.state.on_reader_dropped();
    }
}

impl<In: Message> fmt::Debug for AsyncReader<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncReader").field(self.channel()).finish()
    }
}

/// The writing half of an [`AsyncChannel`](crate::AsyncChannel). `In` is the type that the other half reads.
pub struct AsyncWriter<Out: Message, In: Message = Out> {
    state: Rc<BridgeState<In>>,
    writes: PhantomData<fn(Out)>,
}

impl<Out: Message, In: Message> AsyncWriter<Out, In> {
    pub(super) fn new(state: Rc<BridgeState<In>>) -> Self {
        Self { state, writes: PhantomData }
    }

    /// Waits for room, writes a message and flushes: see [`AsyncChannel::send`](crate::AsyncChannel::send). Nothing was
    /// written if it is dropped before it completes.
    ///
    /// # Errors
    /// The channel is closed, or a handler has refused this message, or one that was written before.
    pub async fn send(&mut self, message: Out) -> Result<(), Error> {
        poll_fn(|context| self.poll_room(context)).await?;
        self.state.write(message, true)
    }

    /// Waits for room, and writes a message: see [`AsyncChannel::feed`](crate::AsyncChannel::feed). Nothing was written
    /// if it is dropped before it completes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn feed(&mut self, message: Out) -> Result<(), Error> {
        poll_fn(|context| self.poll_room(context)).await?;
        self.state.write(message, false)
    }

    /// Flushes, and waits until every written message was handed to the transport. Cancel safe.
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
        self.state.channel()
    }

    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.state.poll_ready(context)
    }

    pub(crate) fn poll_flushed(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.state.poll_flush(context)
    }

    #[cfg(feature = "futures")]
    pub(crate) fn write(&mut self, message: Out) -> Result<(), Error> {
        self.state.write(message, false)
    }
}

impl<Out: Message, In: Message> Drop for AsyncWriter<Out, In> {
    fn drop(&mut self) {
        self.state.on_writer_dropped();
    }
}

impl<Out: Message, In: Message> fmt::Debug for AsyncWriter<Out, In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncWriter").field(self.channel()).finish()
    }
}
