//! Factories: transports get sockets from a socket factory, bootstraps get transports from a transport factory.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::address::{Address, ConnectTarget, Resolver};
use crate::channel::transport::Transport;
use crate::driver::{Io, SocketOption};

/// Properties of a kind of socket.
///
/// ```
/// use waterwheel_channel::transport::SocketKind;
///
/// static TCP: SocketKind = SocketKind::new("tcp");
/// assert_eq!(TCP.name(), "tcp");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketKind {
    name: &'static str,
    accepts_ancillary: bool,
}

impl SocketKind {
    /// Creates a kind with this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, accepts_ancillary: false }
    }

    /// Marks the kind as one that accepts [`AncillaryMessage`](crate::AncillaryMessage)s.
    #[must_use]
    pub const fn with_ancillary_messages(self) -> Self {
        Self { accepts_ancillary: true, ..self }
    }

    /// Returns the name, for errors.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// True if sockets of this kind accept ancillary messages.
    #[must_use]
    pub const fn accepts_ancillary_messages(&self) -> bool {
        self.accepts_ancillary
    }
}

/// Opens sockets of one kind for [`Stream`](crate::Stream) and [`Listener`](crate::Listener). Implemented by
/// the crate that knows the operating system.
pub trait SocketFactory: Send + Sync + 'static {
    /// Returns the kind. Every stream keeps this reference.
    fn kind(&self) -> &'static SocketKind;

    /// Opens a socket that listens at an address. Returns it with its actual address: a port of 0 lets the
    /// operating system choose.
    ///
    /// # Errors
    /// The address is of another kind or in use, an option is not supported, or the system is out of resources.
    /// The error names the operation that failed.
    fn listen(&self, at: &Address, options: &[SocketOption]) -> io::Result<(Io, Address)>;

    /// Opens a socket to be connected to a target, with these options, and bound to the target's local address
    /// if it has one.
    ///
    /// # Errors
    /// Fails as [`listen`](Self::listen) does.
    fn dial(&self, target: &ConnectTarget, options: &[SocketOption]) -> io::Result<Io>;
}

impl fmt::Debug for dyn SocketFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())
    }
}

/// Opens datagram sockets of one kind for [`Datagrams`](crate::Datagrams). Implemented by the crate that knows
/// the operating system.
pub trait DatagramSocketFactory: Send + Sync + 'static {
    /// Returns the kind.
    fn kind(&self) -> &'static SocketKind;

    /// Opens a socket that is bound to `local` or connected to `peer`, or both; at least one is given. Returns
    /// it with its local address.
    ///
    /// # Errors
    /// Fails as [`SocketFactory::listen`] does.
    fn open(
        &self,
        local: Option<&Address>,
        peer: Option<&Address>,
        options: &[SocketOption],
    ) -> io::Result<(Io, Address)>;
}

impl fmt::Debug for dyn DatagramSocketFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())
    }
}

/// Creates the transports of a [`Bootstrap`](crate::Bootstrap).
pub trait TransportFactory: Send + Sync + 'static {
    /// Creates the transport of a channel to be connected; for datagrams, to be connected or bound.
    fn client(&self) -> Box<dyn Transport>;

    /// Returns the resolver for names; `None` if names are not supported.
    fn resolver(&self) -> Option<Arc<dyn Resolver>> {
        None
    }
}

/// Creates the transports of a [`ServerBootstrap`](crate::ServerBootstrap).
pub trait ServerTransportFactory: TransportFactory {
    /// Creates the transport of a server to be bound.
    fn server(&self) -> Box<dyn Transport>;
}
