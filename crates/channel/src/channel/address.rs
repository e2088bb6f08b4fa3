//! Where channels are bound and connected to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::unix_address::UnixAddress;

/// The address of a channel, of whatever transport.
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
/// use waterwheel_channel::Target;
///
/// let (v6, v4): (SocketAddr, SocketAddr) = ("[::1]:80".parse()?, "127.0.0.1:80".parse()?);
/// let target = Target::from(v6).or(v4);
/// assert_eq!(target.others, [v4.into()]);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address to connect to.
    pub remote: Address,
    /// Addresses to try in turn if that one cannot be had.
    pub others: Vec<Address>,
    /// The address to connect from, if it matters.
    pub local: Option<Address>,
}

impl Target {
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

impl<A: Into<Address>> From<A> for Target {
    fn from(remote: A) -> Self {
        Self { remote: remote.into(), others: Vec::new(), local: None }
    }
}
