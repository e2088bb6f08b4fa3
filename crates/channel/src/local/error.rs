//! Errors of local channels.

use std::io;
use std::sync::Arc;

use waterwheel_executor::Error;

use crate::address::Address;

/// The reason why a local channel could not be bound, connected or written to.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalError {
    /// No server has this name, or it is closed.
    #[error("no server listens at local:{name}")]
    Refused {
        /// The name.
        name: Arc<str>,
    },
    /// The backlog of the server is full.
    #[error("the backlog of local:{name} is full: {backlog} connections wait to be accepted")]
    BacklogFull {
        /// The server's name.
        name: Arc<str>,
        /// The size of the backlog.
        backlog: usize,
    },
    /// Another server has this name.
    #[error("the name local:{name} is in use")]
    NameInUse {
        /// The name.
        name: Arc<str>,
    },
    /// The address belongs to another transport.
    #[error("{address} is not a local address")]
    NotLocal {
        /// The address.
        address: Address,
    },
    /// The other end is closed.
    #[error("the peer has closed the connection")]
    PeerClosed,
}

impl LocalError {
    /// Returns the error kind that a socket would report.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            LocalError::Refused { .. } | LocalError::BacklogFull { .. } => {
                io::ErrorKind::ConnectionRefused
            }
            LocalError::NameInUse { .. } => io::ErrorKind::AddrInUse,
            LocalError::NotLocal { .. } => io::ErrorKind::InvalidInput,
            LocalError::PeerClosed => io::ErrorKind::BrokenPipe,
        }
    }
}

impl From<LocalError> for io::Error {
    fn from(error: LocalError) -> Self {
        io::Error::new(error.kind(), error)
    }
}

impl From<LocalError> for Error {
    fn from(error: LocalError) -> Self {
        Error::new(error)
    }
}

/// Returns the name of a local address.
pub(super) fn name_of(address: Address) -> Result<Arc<str>, LocalError> {
    match address {
        Address::Local(name) => Ok(name),
        address => Err(LocalError::NotLocal { address }),
    }
}
