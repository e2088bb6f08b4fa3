//! A channel as a stream and a sink of messages.

#[cfg(feature = "futures")]
mod futures_traits;
mod halves;

use std::fmt;
use std::rc::Rc;

use waterwheel_channel::{Channel, ChannelError, Edit, LocalLoop, Message, TaskScope};
use waterwheel_executor::Error;

pub use self::halves::{AsyncReader, AsyncWriter};
use crate::bridge::drain_signal::DrainSignal;
use crate::bridge::handler::BridgeHandler;
use crate::bridge::state::BridgeState;
use crate::error::AsyncError;

/// A channel as async code sees it: the messages of its pipeline are awaited, and written with back-pressure. `In` is
/// the type of the messages that are read, `Out` that of the messages that are written. On the channel's loop only; not
/// `Send`.
///
/// Made for each connection by [`serve`](crate::Serve::serve), or by [`install`](Self::install) in an initialiser, or
/// by [`of`](Self::of) for a channel that runs.
///
/// - Nothing is read that nobody waits for: the peer of a future that does not call [`next`](Self::next) has to wait.
/// - A message that is written waits while the channel is not writable.
/// - Dropping the value closes the channel, after what was written.
///
/// With the feature `futures` it is a `Stream` of `Result<In, Error>` and a `Sink<Out>`.
///
/// ```
/// use waterwheel_async::AsyncChannel;
/// use waterwheel_executor::Error;
///
/// async fn echo(mut connection: AsyncChannel<String>) -> Result<(), Error> {
///     while let Some(line) = connection.next().await {
///         connection.send(line?).await?;
///     }
///     Ok(())
/// }
/// ```
pub struct AsyncChannel<In: Message, Out: Message = In> {
    // Dropped in this order: the writer, as the last half, closes the channel.
    reader: AsyncReader<In>,
    writer: AsyncWriter<Out, In>,
}

impl<In: Message, Out: Message> AsyncChannel<In, Out> {
    /// Adds the end of a pipeline, as the handler `async`, in an initialiser or in an edit of a pipeline. The handlers
    /// before it turn bytes into `In` and `Out` into bytes. No message is lost: reading begins with the first
    /// [`next`](Self::next).
    ///
    /// # Errors
    /// The pipeline has a handler of that name; or the edit is not made on the channel's loop.
    pub fn install(edit: &mut Edit<'_>) -> Result<Self, Error> {
        let state = new_state(&edit.channel())?;
        edit.add_last("async", BridgeHandler::new(state.clone()))?;
        Ok(Self::new(state))
    }

    /// Takes over a channel that runs, on its loop, by [`install`](Self::install). Messages that were read before have
    /// gone to the handlers of that time; a channel that is to lose nothing has auto-read off until then, or gets its
    /// `AsyncChannel` in the initialiser.
    ///
    /// # Errors
    /// As `install`; or the channel is closed.
    pub fn of(channel: &Channel) -> Result<Self, Error> {
        let here = current_loop(channel)?;
        let installed = here.with_pipeline(channel, |pipeline| pipeline.edit(Self::install));
        let closed = || Err(ChannelError::Closed { cause: channel.close_cause() }.into());
        installed.unwrap_or_else(closed)
    }

    pub(crate) fn new(state: Rc<BridgeState<In>>) -> Self {
        Self { reader: AsyncReader::new(state.clone()), writer: AsyncWriter::new(state) }
    }

    /// Waits for the next message. `None` is the end of the input: the peer has finished, or the channel is closed.
    /// `Some(Err(…))` is an error of the pipeline, such as a frame that is too long, or the cause of the close.
    ///
    /// Cancel safe: a message is taken out only when it is returned.
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

    /// Waits until the channel is writable, then writes a message and flushes. The bytes may still be on their way when
    /// this returns: see [`flush`](Self::flush).
    ///
    /// Cancel safe in this sense: if the future is dropped before it completes, nothing of the message was written.
    ///
    /// # Errors
    /// The channel is closed, or a handler has refused this message, or one that was written before.
    pub async fn send(&mut self, message: Out) -> Result<(), Error> {
        self.writer.send(message).await
    }

    /// Waits until the channel is writable, then writes a message without a flush. Cancel safe as
    /// [`send`](Self::send).
    ///
    /// # Errors
    /// As `send`.
    pub async fn feed(&mut self, message: Out) -> Result<(), Error> {
        self.writer.feed(message).await
    }

    /// Flushes, and waits until every written message was handed to the transport. Cancel safe: the flush itself is
    /// made at the first poll.
    ///
    /// # Errors
    /// A write has failed.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().await
    }

    /// Waits until the loop begins to drain: time to finish, and to begin nothing new. The future borrows nothing, and
    /// can be awaited beside [`next`](Self::next). Cancel safe.
    pub fn draining(&self) -> DrainSignal {
        self.reader.draining()
    }

    /// True if the loop is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.reader.is_draining()
    }

    /// Runs a future on the loop that ends with the channel: see [`TaskScope`].
    #[track_caller]
    pub fn spawn<F: Future + 'static>(
        &self,
        future: F,
    ) -> waterwheel_channel::LocalJoin<F::Output> {
        self.scope().spawn(future)
    }

    /// Returns the scope of the futures that end with the channel: when it is closed, they are polled once more, and
    /// dropped before it is unregistered.
    #[must_use]
    pub fn scope(&self) -> &TaskScope {
        self.reader.state().scope()
    }

    /// Returns the channel: its addresses, attributes and options.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        self.reader.state().channel()
    }

    /// Splits the channel, for a future that reads and one that writes. Dropping the writer shuts down the output;
    /// dropping both closes the channel.
    #[must_use]
    pub fn split(self) -> (AsyncReader<In>, AsyncWriter<Out, In>) {
        (self.reader, self.writer)
    }

    pub(crate) fn reader_mut(&mut self) -> &mut AsyncReader<In> {
        &mut self.reader
    }

    pub(crate) fn state(&self) -> &Rc<BridgeState<In>> {
        self.reader.state()
    }
}

impl<In: Message, Out: Message> fmt::Debug for AsyncChannel<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncChannel").field(self.channel()).finish()
    }
}

/// Returns the state of a new bridge.
pub(crate) fn new_state<In: Message>(channel: &Channel) -> Result<Rc<BridgeState<In>>, Error> {
    let here = current_loop(channel)?;
    Ok(BridgeState::new(channel.clone(), TaskScope::new(&here)))
}

/// Returns the loop of a channel, on which the caller has to be.
fn current_loop(channel: &Channel) -> Result<LocalLoop, Error> {
    let here = LocalLoop::current().filter(|_| channel.in_event_loop());
    here.ok_or_else(|| Error::new(AsyncError::NotOnLoop { channel: channel.id() }))
}
