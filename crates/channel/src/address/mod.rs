//! Where channels are bound and connected to.

mod address_spec;
mod unix;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

pub use self::address_spec::{AddressSpec, Resolver};
pub use self::unix::UnixAddress;

/// The address of a channel, of whatever transport.
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
    /// A path or a name of the system's.
    Unix(UnixAddress),
    /// A name in this process: see [`local`](crate::local).
    Local(Arc<str>),
}

impl Address {
    /// A name in this process.
    #[must_use]
    pub fn local(name: impl Into<Arc<str>>) -> Self {
        Address::Local(name.into())
    }

    /// Returns the IP address and port, if it is one.
    #[must_use]
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Address::Ip(address) => Some(*address),
            _ => None,
        }
    }

    /// Returns the IP address, if it has one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.socket_addr().map(|address| address.ip())
    }

    /// Returns the port, if it has one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.socket_addr().map(|address| address.port())
    }

    /// Returns the path of a Unix socket, if it has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Address::Unix(UnixAddress::Path(path)) => Some(path),
            _ => None,
        }
    }

    /// Returns the name in this process, if it is one.
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

/// What to connect to, and from where.
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
    /// The address to connect to.
    pub remote: Address,
    /// Addresses to try in turn if that one cannot be had.
    pub others: Vec<Address>,
    /// The address to connect from, if it matters.
    pub local: Option<Address>,
}

impl ConnectTarget {
    /// The same; this address is tried if none of those before can be had.
    #[must_use]
    pub fn or(mut self, other: impl Into<Address>) -> Self {
        self.others.push(other.into());
        self
    }

    /// The same, from this address.
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
