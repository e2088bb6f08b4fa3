//! Where channels are bound and connected to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The address of a channel, of whatever transport.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// An IP address and port.
    Ip(SocketAddr),
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

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::Ip(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address) => address.fmt(f),
            Address::Local(name) => write!(f, "local:{name}"),
        }
    }
}

/// What to connect to, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address to connect to.
    pub remote: Address,
    /// The address to connect from, if it matters.
    pub local: Option<Address>,
}

impl<A: Into<Address>> From<A> for Target {
    fn from(remote: A) -> Self {
        Self { remote: remote.into(), local: None }
    }
}
