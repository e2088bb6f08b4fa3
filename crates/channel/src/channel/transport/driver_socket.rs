//! The socket of a transport over the loop's driver, and where it is.
//!
//! ```text
//!   Unopened ──► Attached ◄──► Detached      and from anywhere to Gone
//!                    └──► Closing            until the driver has let it go
//! ```

use std::io;
use std::mem;

use waterwheel_executor::Error;

use crate::channel::transport::TransportContext;
use crate::driver::{Detach, Io, ReadPlan, SocketOption};
use crate::token::Token;

/// Where a socket is; `U` is what there is before it.
#[derive(Debug)]
pub(super) enum DriverSocket<U> {
    /// There is none yet.
    Unopened(U),
    /// The driver has it.
    Attached(Token),
    /// Not with its loop, or not any more: what comes waits in the kernel.
    Detached(Io),
    /// Closed, and the driver has not let it go yet.
    Closing(Token),
    Gone,
}

impl<U> DriverSocket<U> {
    /// What the driver knows it by, if it has it.
    #[inline]
    pub(super) fn token(&self) -> Option<Token> {
        match self {
            DriverSocket::Attached(token) => Some(*token),
            _ => None,
        }
    }

    /// True if the driver has it under this token, or is letting it go.
    pub(super) fn is_known_by(&self, token: Token) -> bool {
        matches!(self, DriverSocket::Attached(own) | DriverSocket::Closing(own) if *own == token)
    }

    /// Brings one that is detached to the driver; its token, if it was. One that cannot be brought there is
    /// gone.
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

    /// Takes it back from the driver.
    pub(super) fn deregister(&mut self, up: &TransportContext) -> Result<(), Error> {
        if let Some(token) = self.token() {
            *self = DriverSocket::Detached(up.event_loop().release(token)?);
        }
        Ok(())
    }

    /// Sets an option, or has it kept among those that are to be set when it is with the driver.
    pub(super) fn set_option(
        &self,
        up: Option<&TransportContext>,
        option: SocketOption,
        keep: impl FnOnce(SocketOption),
    ) -> Result<(), Error> {
        match (self.token(), up) {
            (Some(token), Some(up)) => up.event_loop().set_option(token, option)?,
            _ => keep(option),
        }
        Ok(())
    }

    pub(super) fn set_read(&self, up: &TransportContext, plan: Option<ReadPlan>) {
        if let Some(token) = self.token() {
            up.event_loop().set_read(token, plan);
        }
    }

    pub(super) fn close(&mut self, up: &TransportContext) -> Detach {
        match mem::replace(self, DriverSocket::Gone) {
            DriverSocket::Attached(token) => {
                let detached = up.event_loop().close_socket(token);
                if detached == Detach::Pending {
                    *self = DriverSocket::Closing(token);
                }
                detached
            }
            _ => Detach::Done,
        }
    }
}
