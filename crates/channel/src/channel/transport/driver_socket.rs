//! The socket of a transport over the loop's driver, and its state.
//!
//! ```text
//!   Unopened ──► Attached ◄──► Detached      and from any state to Gone
//!                    └──► Closing            until the driver has detached it
//! ```

use std::io;
use std::mem;

use waterwheel_executor::Error;

use crate::base::token::Token;
use crate::channel::transport::TransportContext;
use crate::driver::{Detach, Io, ReadPlan, SocketOption};

/// The state of a socket; `U` is the state that the transport keeps until the socket is opened.
#[derive(Debug)]
pub(super) enum DriverSocket<U> {
    /// There is no socket yet.
    Unopened(U),
    /// The socket is attached to the driver.
    Attached(Token),
    /// The socket is not registered: received data waits in the kernel.
    Detached(Io),
    /// The socket is closed, and the driver has not detached it yet.
    Closing(Token),
    Gone,
}

impl<U> DriverSocket<U> {
    /// Returns the token of an attached socket.
    #[inline]
    pub(super) fn token(&self) -> Option<Token> {
        match self {
            DriverSocket::Attached(token) => Some(*token),
            _ => None,
        }
    }

    /// True if the driver has the socket under this token, attached or closing.
    pub(super) fn has_token(&self, token: Token) -> bool {
        matches!(self, DriverSocket::Attached(own) | DriverSocket::Closing(own) if *own == token)
    }

    /// Attaches a detached socket to the driver and returns its token; `None` if it was not detached. A socket
    /// that cannot be attached is gone.
    pub(super) fn register(
        &mut self,
        attach: impl FnOnce(Io) -> io::Result<Token>,
    ) -> io::Result<Option<Token>> {
        match mem::replace(self, DriverSocket::Gone) {
            DriverSocket::Detached(io) => {
                let token = attach(io)?;
                *self = DriverSocket::Attached(token);
                Ok(Some(token))
            }
            other => {
                *self = other;
                Ok(None)
            }
        }
    }

    /// Takes the socket back from the driver.
    pub(super) fn deregister(&mut self, context: &TransportContext) -> Result<(), Error> {
        if let Some(token) = self.token() {
            *self = DriverSocket::Detached(context.event_loop().release(token)?);
        }
        Ok(())
    }

    /// Sets an option, or passes it to `keep` if the socket is not attached.
    pub(super) fn set_option(
        &self,
        context: Option<&TransportContext>,
        option: SocketOption,
        keep: impl FnOnce(SocketOption),
    ) -> Result<(), Error> {
        match (self.token(), context) {
            (Some(token), Some(context)) => context.event_loop().set_option(token, option)?,
            _ => keep(option),
        }
        Ok(())
    }

    pub(super) fn set_read(&self, context: &TransportContext, plan: Option<ReadPlan>) {
        if let Some(token) = self.token() {
            context.event_loop().set_read(token, plan);
        }
    }

    pub(super) fn close(&mut self, context: &TransportContext) -> Detach {
        match mem::replace(self, DriverSocket::Gone) {
            DriverSocket::Attached(token) => {
                let detached = context.event_loop().close_socket(token);
                if detached == Detach::Pending {
                    *self = DriverSocket::Closing(token);
                }
                detached
            }
            _ => Detach::Done,
        }
    }
}
