//! `WebSocketContext`: a handler of messages sends with it.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{Channel, Ctx, TimerId};

use super::socket_state::SocketState;
use super::time_limits::is_own_timer;
use crate::deflate::parameters::DeflateParameters;
use crate::protocol::broadcast::BroadcastMessage;
use crate::protocol::close::CloseReason;
use crate::protocol::error::SendError;
use crate::protocol::message::{ShortMessage, WebSocketMessage};
use crate::protocol::message_buffer::MessageKind;

/// A connection, during a call of its [`WebSocketHandler`](crate::WebSocketHandler).
#[derive(Clone, Copy)]
pub struct WebSocketContext<'a> {
    ctx: &'a Ctx<'a>,
    state: &'a Rc<SocketState>,
}

impl<'a> WebSocketContext<'a> {
    #[inline]
    pub(super) fn new(ctx: &'a Ctx<'a>, state: &'a Rc<SocketState>) -> Self {
        Self { ctx, state }
    }

    /// Sends a message. It is flushed at the end of the round of reads, or at once if there is none.
    ///
    /// # Errors
    /// The connection is closing, or the message may not be sent now.
    #[inline]
    pub fn send(&self, message: impl Into<WebSocketMessage>) -> Result<(), SendError> {
        self.state.send(self.ctx, message.into())
    }

    /// Sends a short message, without taking it: for the answers of
    /// [`on_short_message`](crate::WebSocketHandler::on_short_message).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_short(&self, message: ShortMessage<'_>) -> Result<(), SendError> {
        match message {
            ShortMessage::Text(text) => self.send_text(text),
            ShortMessage::Binary(bytes) => self.send_binary(bytes),
        }
    }

    /// Sends a text, without taking it.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_text(&self, text: &str) -> Result<(), SendError> {
        self.state.send_data(self.ctx, MessageKind::Text, text.as_bytes())
    }

    /// Sends a binary message, without taking it.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_binary(&self, bytes: &[u8]) -> Result<(), SendError> {
        self.state.send_data(self.ctx, MessageKind::Binary, bytes)
    }

    /// Sends a message that is encoded once for many connections. To send it to a
    /// [`ChannelGroup`](waterwheel_channel::ChannelGroup), write it there.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_broadcast(&self, message: &BroadcastMessage) -> Result<(), SendError> {
        self.state.send_broadcast(self.ctx, message)
    }

    /// Begins the closing handshake: sends a Close, and receives until that of the peer. Does nothing if it has begun.
    pub fn close(&self, reason: impl Into<CloseReason>) {
        self.state.begin_close(self.ctx, Some(reason.into()));
    }

    /// True once a Close was sent or received.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.state.is_closing()
    }

    /// True while the channel is writable. A handler that is asked to send without end sends while this is true, and
    /// goes on in [`on_writability_changed`](crate::WebSocketHandler::on_writability_changed).
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.state.is_writable(self.ctx)
    }

    /// Returns the subprotocol that was negotiated.
    #[must_use]
    pub fn subprotocol(&self) -> Option<&str> {
        self.state.agreement.subprotocol.as_deref()
    }

    /// Returns the parameters of permessage-deflate, if it was negotiated.
    #[must_use]
    pub fn deflate(&self) -> Option<&DeflateParameters> {
        self.state.agreement.deflate.as_ref()
    }

    /// Returns the channel: a handle for any thread, which takes [`WebSocketMessage`]s and [`BroadcastMessage`]s.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.ctx.channel()
    }

    /// Schedules a call of [`on_timer`](crate::WebSocketHandler::on_timer) with `tag` after `delay`. No timer
    /// fires after [`on_close`](crate::WebSocketHandler::on_close).
    ///
    /// # Panics
    /// The tag is one of the two highest, which the connection uses itself.
    pub fn schedule(&self, delay: Duration, tag: u32) -> TimerId {
        assert!(!is_own_timer(tag), "the tag {tag} is used by the connection itself");
        self.ctx.schedule(delay, tag)
    }

    /// Returns the context of the handler's slot, for everything that is not about WebSocket. Bytes that are written
    /// with it go to the peer as they are, and before the messages of this round of reads that were not passed on yet.
    #[must_use]
    pub fn ctx(&self) -> &'a Ctx<'a> {
        self.ctx
    }
}

impl fmt::Debug for WebSocketContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketContext").field("agreement", &self.state.agreement).finish()
    }
}
