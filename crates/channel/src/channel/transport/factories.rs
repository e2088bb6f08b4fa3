//! Where transports get their sockets, and bootstraps their transports.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::address::{Address, ConnectTarget, Resolver};
use crate::channel::transport::Transport;
use crate::driver::{Io, SocketOption};

/// What there is to know about sockets of one kind.
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
    passes: bool,
}

impl SocketKind {
    /// Sockets of this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, passes: false }
    }

    /// The same, of sockets that take [`AncillaryMessage`](crate::AncillaryMessage)s too.
    #[must_use]
    pub const fn passing(self) -> Self {
        Self { passes: true, ..self }
    }

    /// What they are, for errors.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether they take ancillary messages.
    #[must_use]
    pub const fn passes(&self) -> bool {
        self.passes
    }
}

/// Makes sockets of one kind: what [`Stream`](crate::Stream) and [`Listener`](crate::Listener) leave to
/// the crate that knows the operating system.
pub trait SocketFactory: Send + Sync + 'static {
    /// What they are. Every stream keeps it: it is the same for all of them.
    fn kind(&self) -> &'static SocketKind;

    /// A socket that listens at this address, and where it does: the address may leave the port to the
    /// system.
    ///
    /// # Errors
    /// The address is of another kind or in use, an option is not supported, the system has no more to
    /// give. The error says what it was about.
    fn listen(&self, at: &Address, options: &[SocketOption]) -> io::Result<(Io, Address)>;

    /// A socket that is to be connected to this target: of the right kind, with these options, and bound
    /// if the target says where.
    ///
    /// # Errors
    /// As for [`listen`](Self::listen).
    fn dial(&self, target: &ConnectTarget, options: &[SocketOption]) -> io::Result<Io>;
}

impl fmt::Debug for dyn SocketFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())
    }
}

/// Makes sockets of one kind for datagrams: what [`Datagrams`](crate::Datagrams) leaves to the crate that
/// knows the operating system.
pub trait DatagramSocketFactory: Send + Sync + 'static {
    /// What they are.
    fn kind(&self) -> &'static SocketKind;

    /// A socket that is bound, at this address if there is one, and connected, if that is given; and where
    /// it is bound. There is one of the two.
    ///
    /// # Errors
    /// As for [`SocketFactory::listen`].
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

/// A kind of transport: what a [`Bootstrap`](crate::Bootstrap) makes channels of.
pub trait TransportFactory: Send + Sync + 'static {
    /// The transport of a channel that is to be connected; of datagrams, connected or bound.
    fn client(&self) -> Box<dyn Transport>;

    /// Who resolves names, if they can be.
    fn resolver(&self) -> Option<Arc<dyn Resolver>> {
        None
    }
}

/// A kind of transport that has servers: what a [`ServerBootstrap`](crate::ServerBootstrap) makes channels
/// of.
pub trait ServerTransportFactory: TransportFactory {
    /// The transport of a server that is to be bound.
    fn server(&self) -> Box<dyn Transport>;
}
