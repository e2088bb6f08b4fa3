//! What can go wrong within the process.

use std::io;
use std::sync::Arc;

use waterwheel_executor::Error;

use crate::address::Address;

/// Why a local channel could not be bound, connected or written to.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalError {
    /// There is no server of this name, or it is closed.
    #[error("nobody listens at local:{name}")]
    Refused {
        /// The name.
        name: Arc<str>,
    },
    /// The server does not accept fast enough.
    #[error("the backlog of local:{name} is full: {backlog} connections wait to be accepted")]
    BacklogFull {
        /// The server's name.
        name: Arc<str>,
        /// How many may wait.
        backlog: usize,
    },
    /// Another server has this name.
    #[error("the name local:{name} is in use")]
    NameInUse {
        /// The name.
        name: Arc<str>,
    },
    /// The address is one of another transport.
    #[error("{address} is not a name in this process")]
    NotLocal {
        /// The address.
        address: Address,
    },
    /// The other end is closed.
    #[error("the peer has closed the connection")]
    PeerClosed,
}

impl LocalError {
    /// What the same would be called if it came from a socket.
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

/// The name that an address stands for.
pub(super) fn name_of(address: Address) -> Result<Arc<str>, LocalError> {
    match address {
        Address::Local(name) => Ok(name),
        address => Err(LocalError::NotLocal { address }),
    }
}
