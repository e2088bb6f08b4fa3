//! Addresses of channels, and targets to connect to.

mod address_spec;
mod network;
mod unix;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

pub use self::address_spec::{AddressSpec, Resolver};
pub use self::network::{InvalidNetwork, Network};
pub use self::unix::UnixAddress;

/// The address of a channel, of any transport.
///
/// ```
/// use std::net::{IpAddr, SocketAddr};
/// use waterwheel_channel::{Address, UnixAddress};
///
/// let peer = Address::from(SocketAddr::from(([192, 0, 2, 7], 80)));
/// assert_eq!((peer.ip(), peer.port()), (Some(IpAddr::from([192, 0, 2, 7])), Some(80)));
/// let door = Address::from(UnixAddress::path("/run/door"));
/// assert_eq!((door.ip(), door.path().unwrap().to_str()), (None, Some("/run/door")));
/// assert_eq!(Address::local("here").local_name(), Some("here"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// An IP address and port.
    Ip(SocketAddr),
    /// An address of a Unix socket: a path or an abstract name.
    Unix(UnixAddress),
    /// A name within this process: see [`local`](crate::local).
    Local(Arc<str>),
}

impl Address {
    /// Creates the address with this name within the process.
    #[must_use]
    pub fn local(name: impl Into<Arc<str>>) -> Self {
        Address::Local(name.into())
    }

    /// Returns the IP address and port; `None` for any other kind of address.
    #[must_use]
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Address::Ip(address) => Some(*address),
            _ => None,
        }
    }

    /// Returns the IP address, without the port.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.socket_addr().map(|address| address.ip())
    }

    /// Returns the port of an IP address.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.socket_addr().map(|address| address.port())
    }

    /// Returns the path of a Unix socket; `None` for any other address.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Address::Unix(UnixAddress::Path(path)) => Some(path),
            _ => None,
        }
    }

    /// Returns the name of an address within this process.
    #[must_use]
    pub fn local_name(&self) -> Option<&str> {
        match self {
            Address::Local(name) => Some(name),
            _ => None,
        }
    }
}

impl From<UnixAddress> for Address {
    fn from(address: UnixAddress) -> Self {
        Address::Unix(address)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::Ip(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address) => address.fmt(f),
            Address::Unix(address) => address.fmt(f),
            Address::Local(name) => write!(f, "local:{name}"),
        }
    }
}

/// The addresses to connect to, in order of preference, and the local address to connect from.
///
/// ```
/// use std::net::SocketAddr;
/// use waterwheel_channel::ConnectTarget;
///
/// let (v6, v4): (SocketAddr, SocketAddr) = ("[::1]:80".parse()?, "127.0.0.1:80".parse()?);
/// let target = ConnectTarget::from(v6).or(v4);
/// assert_eq!(target.others, [v4.into()]);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTarget {
    /// The address to connect to first.
    pub remote: Address,
    /// Addresses to try in turn if connecting to the first one fails.
    pub others: Vec<Address>,
    /// The local address to bind before connecting; `None` leaves the choice to the transport.
    pub local: Option<Address>,
}

impl ConnectTarget {
    /// Adds an address to try after connecting to all previous addresses has failed.
    #[must_use]
    pub fn or(mut self, other: impl Into<Address>) -> Self {
        self.others.push(other.into());
        self
    }

    /// Sets the local address to connect from.
    #[must_use]
    pub fn from_local(mut self, local: impl Into<Address>) -> Self {
        self.local = Some(local.into());
        self
    }
}

impl<A: Into<Address>> From<A> for ConnectTarget {
    fn from(remote: A) -> Self {
        Self { remote: remote.into(), others: Vec::new(), local: None }
    }
}
