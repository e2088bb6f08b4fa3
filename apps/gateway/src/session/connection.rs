//! The connection of a client, as its session and the hub see it.

use super::reply::{GatewayReply, Push};
use crate::error_code::GatewayError;

/// The id that a client gave a command; its answer repeats it.
pub type CommandId = u64;

/// Writes to a client, in the protocol that it speaks. All calls are made on the loop of the client; none blocks, and none
/// calls back.
pub trait ClientConnection: 'static {
    /// Writes the answer to a command.
    fn answer(&self, id: Option<CommandId>, answer: Result<&GatewayReply, &GatewayError>);

    /// Writes a push. For a client that reads too slowly, the connection drops pushes as its policy says, and tells the
    /// client later how many.
    fn push(&self, push: &Push);

    /// True while the client takes what it is sent. While it does not, its commands wait: answers are not to pile up for it.
    /// The connection calls [`Session::resume`](super::Session::resume) when this has become true again.
    fn is_ready(&self) -> bool;

    /// Stops reading commands while as many wait as a client may have, and goes on.
    fn pause_commands(&self, is_paused: bool);

    /// Sends what was pushed, then this reason, and closes the connection.
    fn close(&self, error: GatewayError, may_reconnect: bool);
}
