//! A connection as async code sees it.

#[cfg(feature = "futures")]
mod futures_traits;
pub(crate) mod halves;

use std::fmt;

use waterwheel_async::{AsyncChannel, DrainSignal};
use waterwheel_channel::{Channel, Edit, LocalJoin};
use waterwheel_executor::Error;

use self::halves::{WebSocketReader, WebSocketWriter};
use crate::connection::agreement::Agreement;
use crate::connection::handler::CloseOutcome;
use crate::connection::install::install_pipeline;
use crate::protocol::close::CloseReason;
use crate::protocol::message::WebSocketMessage;

/// A connection as async code sees it: messages are awaited, and sent with back-pressure. On the connection's loop only;
/// not `Send`.
///
/// - Nothing is read that nobody waits for: the peer of a future that does not call [`next`](Self::next) has to wait.
///   Pings are answered when messages are read.
/// - A message that is sent waits while the channel is not writable.
/// - Dropping the value begins the closing handshake, with [`CloseCode::NORMAL`](crate::CloseCode::NORMAL).
///
/// With the feature `futures` it is a `Stream` of `Result<WebSocketMessage, Error>` and a `Sink<WebSocketMessage>`.
///
/// ```
/// use waterwheel_executor::Error;
/// use waterwheel_websocket::WebSocket;
///
/// async fn echo(mut socket: WebSocket) -> Result<(), Error> {
///     while let Some(message) = socket.next().await {
///         socket.send(message?).await?;
///     }
///     Ok(())
/// }
/// ```
pub struct WebSocket {
    reader: WebSocketReader,
    writer: WebSocketWriter,
    agreement: Agreement,
    scope: waterwheel_channel::TaskScope,
}

impl WebSocket {
    /// Adds the handlers of a connection, with its async end.
    pub(crate) fn install(edit: &mut Edit<'_>, agreement: Agreement) -> Result<Self, Error> {
        install_pipeline(edit, agreement.clone())?;
        Ok(Self::of(AsyncChannel::install(edit)?, agreement))
    }

    pub(crate) fn of(channel: AsyncChannel<WebSocketMessage>, agreement: Agreement) -> Self {
        let scope = channel.scope().clone();
        let (reader, writer) = channel.split();
        let (reader, writer) = (WebSocketReader::new(reader), WebSocketWriter::new(writer));
        Self { reader, writer, agreement, scope }
    }

    /// Waits for the next message. `None` is the end of the connection: [`outcome`](Self::outcome) tells which.
    /// `Some(Err(…))` is a violation of the protocol by the peer, an error of the pipeline, or the cause of the close.
    ///
    /// Cancel safe: a message is taken out only when it is returned.
    pub async fn next(&mut self) -> Option<Result<WebSocketMessage, Error>> {
        self.reader.next().await
    }

    /// Waits until the channel is writable, then sends a message. Its bytes may still be on their way when this returns.
    ///
    /// Cancel safe in this sense: if the future is dropped before it completes, nothing of the message was sent.
    ///
    /// # Errors
    /// The connection is closing, or the message may not be sent now.
    pub async fn send(&mut self, message: impl Into<WebSocketMessage>) -> Result<(), Error> {
        self.writer.send(message).await
    }

    /// Waits until the channel is writable, then writes a message without a flush. Cancel safe as
    /// [`send`](Self::send).
    ///
    /// # Errors
    /// As `send`.
    pub async fn feed(&mut self, message: impl Into<WebSocketMessage>) -> Result<(), Error> {
        self.writer.feed(message).await
    }

    /// Flushes, and waits until every message was handed to the transport. Cancel safe.
    ///
    /// # Errors
    /// A message was refused, or the connection has ended.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().await
    }

    /// Sends a Close, and waits for the end of the connection; messages that still come are dropped. Returns how it has
    /// ended.
    ///
    /// Cancel safe: the Close is sent at the first poll, behind what was sent before, and the wait can be repeated.
    pub async fn close(&mut self, reason: impl Into<CloseReason>) -> CloseOutcome {
        // Without a wait for room: a peer that does not read has the time limit of the closing handshake. Dropped if a Close
        // was sent before: then there is only the wait.
        self.channel().send(WebSocketMessage::Close(Some(reason.into())));
        while self.next().await.is_some() {}
        self.outcome().cloned().unwrap_or(CloseOutcome::Lost)
    }

    /// Returns how the connection has ended; `None` before [`next`](Self::next) has returned `None`.
    #[must_use]
    pub fn outcome(&self) -> Option<&CloseOutcome> {
        self.reader.outcome()
    }

    /// Returns the subprotocol that was negotiated.
    #[must_use]
    pub fn subprotocol(&self) -> Option<&str> {
        self.agreement.subprotocol.as_deref()
    }

    /// Waits until the loop begins to drain; the connection is closed with
    /// [`CloseCode::GOING_AWAY`](crate::CloseCode::GOING_AWAY) then. The future borrows nothing. Cancel safe.
    pub fn draining(&self) -> DrainSignal {
        self.reader.draining()
    }

    /// Runs a future on the loop that ends with the connection.
    #[track_caller]
    pub fn spawn<F: Future + 'static>(&self, future: F) -> LocalJoin<F::Output> {
        self.scope.spawn(future)
    }

    /// Returns the channel: a handle for any thread, which takes [`WebSocketMessage`]s and
    /// [`BroadcastMessage`](crate::BroadcastMessage)s.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        self.reader.channel()
    }

    /// Splits the connection, for a future that reads and one that writes. Dropping the writer begins the closing
    /// handshake. Dropping the reader alone ends the reads: pings of the peer are not answered any more, and its Close is not
    /// noticed. A future that only writes keeps the reader in another one that calls `next`.
    #[must_use]
    pub fn split(self) -> (WebSocketReader, WebSocketWriter) {
        (self.reader, self.writer)
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("channel", self.channel())
            .field("agreement", &self.agreement)
            .finish()
    }
}
