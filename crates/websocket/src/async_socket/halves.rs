//! The two halves of a `WebSocket`.

use std::fmt;

use waterwheel_async::{AsyncReader, AsyncWriter, DrainSignal};
use waterwheel_channel::Channel;
use waterwheel_executor::Error;

use crate::connection::handler::CloseOutcome;
use crate::protocol::error::ProtocolError;
use crate::protocol::message::WebSocketMessage;

/// The reading half of a [`WebSocket`](crate::WebSocket).
pub struct WebSocketReader {
    pub(super) messages: AsyncReader<WebSocketMessage>,
    outcome: Option<CloseOutcome>,
}

impl WebSocketReader {
    pub(super) fn new(messages: AsyncReader<WebSocketMessage>) -> Self {
        Self { messages, outcome: None }
    }

    /// Waits for the next message: see [`WebSocket::next`](crate::WebSocket::next). Cancel safe.
    pub async fn next(&mut self) -> Option<Result<WebSocketMessage, Error>> {
        if self.has_ended() {
            return None;
        }
        let next = self.messages.next().await;
        self.note(next)
    }

    /// Returns how the connection has ended; `None` before [`next`](Self::next) has returned `None`.
    #[must_use]
    pub fn outcome(&self) -> Option<&CloseOutcome> {
        self.outcome.as_ref()
    }

    /// Waits until the loop begins to drain: see [`WebSocket::draining`](crate::WebSocket::draining).
    pub fn draining(&self) -> DrainSignal {
        self.messages.draining()
    }

    /// Returns the channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        self.messages.channel()
    }

    /// True if no message comes any more.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.outcome, Some(CloseOutcome::Received(_) | CloseOutcome::Lost))
    }

    /// Notes how the connection ends, if it does.
    pub(super) fn note(
        &mut self,
        next: Option<Result<WebSocketMessage, Error>>,
    ) -> Option<Result<WebSocketMessage, Error>> {
        match next {
            Some(Ok(WebSocketMessage::Close(reason))) => {
                self.outcome = Some(CloseOutcome::Received(reason));
                None
            }
            Some(Err(error)) => {
                if let Some(violation) = error.find::<ProtocolError>() {
                    self.outcome = Some(CloseOutcome::Failed(*violation));
                }
                Some(Err(error))
            }
            None => {
                self.outcome.get_or_insert(CloseOutcome::Lost);
                None
            }
            message => message,
        }
    }
}

impl fmt::Debug for WebSocketReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebSocketReader").field(self.channel()).finish()
    }
}

/// The writing half of a [`WebSocket`](crate::WebSocket).
pub struct WebSocketWriter {
    pub(super) messages: AsyncWriter<WebSocketMessage>,
}

impl WebSocketWriter {
    pub(super) fn new(messages: AsyncWriter<WebSocketMessage>) -> Self {
        Self { messages }
    }

    /// Waits for room, and sends a message: see [`WebSocket::send`](crate::WebSocket::send). Nothing was sent if it is
    /// dropped before it completes.
    ///
    /// # Errors
    /// The connection is closing, or the message may not be sent now.
    pub async fn send(&mut self, message: impl Into<WebSocketMessage>) -> Result<(), Error> {
        self.messages.send(message.into()).await
    }

    /// Waits for room, and writes a message without a flush: see [`WebSocket::feed`](crate::WebSocket::feed). Nothing was
    /// written if it is dropped before it completes.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn feed(&mut self, message: impl Into<WebSocketMessage>) -> Result<(), Error> {
        self.messages.feed(message.into()).await
    }

    /// Flushes, and waits until every message was handed to the transport. Cancel safe.
    ///
    /// # Errors
    /// A message was refused, or the connection has ended.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.messages.flush().await
    }

    /// Returns the channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        self.messages.channel()
    }
}

impl fmt::Debug for WebSocketWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WebSocketWriter").field(self.channel()).finish()
    }
}
