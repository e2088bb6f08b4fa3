//! The handler of a connection, as a user writes it.

use waterwheel_channel::{HandlerResult, Msg};
use waterwheel_executor::Error;

use super::context::WebSocketContext;
use crate::protocol::close::CloseReason;
use crate::protocol::error::ProtocolError;
use crate::protocol::message::{ShortMessage, WebSocketMessage};

/// A handler of the messages of one connection, called on its loop: the face with the least cost.
///
/// What it sends is flushed at the end of a round of reads; outside of one, at once. An error that a method returns is
/// reported, and closes the connection with [`CloseCode::INTERNAL_ERROR`](crate::CloseCode::INTERNAL_ERROR); except
/// [`SendError::Closing`](crate::SendError::Closing): the peer, or a drain, may close at any time, and `socket.send(answer)?`
/// is no fault then.
///
/// ```
/// use waterwheel_channel::HandlerResult;
/// use waterwheel_websocket::{WebSocketContext, WebSocketHandler, WebSocketMessage};
///
/// struct Echo;
///
/// impl WebSocketHandler for Echo {
///     fn on_message(
///         &mut self,
///         socket: &WebSocketContext<'_>,
///         message: WebSocketMessage,
///     ) -> HandlerResult {
///         socket.send(message)?;
///         Ok(())
///     }
/// }
/// ```
#[allow(
    unused_variables,
    reason = "overriding methods need the parameters that the defaults ignore"
)]
pub trait WebSocketHandler: 'static {
    /// Called once, before the first message.
    ///
    /// # Errors
    /// The connection is to be closed.
    fn on_open(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        Ok(())
    }

    /// Called with a message: a text, a binary message, or a part of one if the options say so; a ping or a pong if they
    /// are [passed on](crate::WebSocketOptionsBuilder::pass_control). Never a Close.
    ///
    /// # Errors
    /// The connection is to be closed.
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult;

    /// Called with a text or a binary message of at most 128 bytes that came in one frame, instead of
    /// [`on_message`](Self::on_message), which gets a copy unless this is overridden. For a handler that does not keep the
    /// message: nothing is allocated for it.
    ///
    /// ```
    /// use waterwheel_channel::HandlerResult;
    /// use waterwheel_websocket::{ShortMessage, WebSocketContext, WebSocketHandler, WebSocketMessage};
    ///
    /// struct Echo;
    ///
    /// impl WebSocketHandler for Echo {
    ///     fn on_message(
    ///         &mut self,
    ///         socket: &WebSocketContext<'_>,
    ///         message: WebSocketMessage,
    ///     ) -> HandlerResult {
    ///         Ok(socket.send(message)?)
    ///     }
    ///
    ///     fn on_short_message(
    ///         &mut self,
    ///         socket: &WebSocketContext<'_>,
    ///         message: ShortMessage<'_>,
    ///     ) -> HandlerResult {
    ///         Ok(socket.send_short(message)?)
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// The connection is to be closed.
    #[inline]
    fn on_short_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: ShortMessage<'_>,
    ) -> HandlerResult {
        self.on_message(socket, message.into())
    }

    /// Called at the end of a round of reads, after the last of its messages.
    ///
    /// # Errors
    /// The connection is to be closed.
    fn on_read_complete(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        Ok(())
    }

    /// Called once, if [`on_open`](Self::on_open) was: no more messages will come.
    fn on_close(&mut self, socket: &WebSocketContext<'_>, outcome: &CloseOutcome) {}

    /// Called when the channel has become writable, or has stopped being so.
    ///
    /// # Errors
    /// The connection is to be closed.
    fn on_writability_changed(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        Ok(())
    }

    /// Called with a user event of the pipeline, such as [`Draining`](waterwheel_channel::Draining), after which the
    /// connection is closed with [`CloseCode::GOING_AWAY`](crate::CloseCode::GOING_AWAY). Passes it on unless overridden.
    ///
    /// # Errors
    /// The connection is to be closed.
    fn on_user_event(&mut self, socket: &WebSocketContext<'_>, event: Msg) -> HandlerResult {
        socket.ctx().fire_user_event(event);
        Ok(())
    }

    /// Called when a timer fires that was set by [`WebSocketContext::schedule`].
    ///
    /// # Errors
    /// The connection is to be closed.
    fn on_timer(&mut self, socket: &WebSocketContext<'_>, tag: u32) -> HandlerResult {
        Ok(())
    }

    /// Called with an error of the transport or of another handler, or one that a method of this handler has returned.
    /// Unless overridden, passes it on to be reported; except that the peer has broken the connection off, which peers do
    /// at any time.
    fn on_error(&mut self, socket: &WebSocketContext<'_>, error: Error) {
        if !error.is_connection_lost() {
            socket.ctx().fire_error(error);
        }
    }
}

/// How a connection has ended, for the side that reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// The peer has sent a Close: it closes the connection, or has answered ours.
    Received(Option<CloseReason>),
    /// The peer has violated the protocol or a limit, and was told so.
    Failed(ProtocolError),
    /// The connection ended without a Close of the peer: it is gone, did not answer a ping or a Close in time, or
    /// this side has failed.
    Lost,
}
