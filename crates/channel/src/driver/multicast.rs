//! Multicast groups, and the network interfaces through which they are joined (C13).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A network interface of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkInterface {
    /// The interface that the system's routes select.
    #[default]
    Any,
    /// The interface with this index.
    Index(u32),
    /// The interface with this address. For IPv6, interfaces are named by their index only.
    Address(Ipv4Addr),
}

/// The membership in a multicast group: datagrams to the group are received, from any source or from a single one.
///
/// ```
/// use std::net::Ipv4Addr;
/// use waterwheel_channel::driver::{NetworkInterface, MulticastMembership};
///
/// let member = MulticastMembership::new(Ipv4Addr::new(239, 1, 2, 3)).at(NetworkInterface::Index(2));
/// assert_eq!(member.to_string(), "239.1.2.3 at interface 2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastMembership {
    /// The address of the group.
    pub group: IpAddr,
    /// The interface on which the group is joined.
    pub interface: NetworkInterface,
    /// The only source to receive from; `None` means any source.
    pub source: Option<IpAddr>,
}

impl MulticastMembership {
    /// Creates a membership in this group, on the interface that the system's routes select, for any source.
    #[must_use]
    pub fn new(group: impl Into<IpAddr>) -> Self {
        Self { group: group.into(), interface: NetworkInterface::Any, source: None }
    }

    /// Sets the interface.
    #[must_use]
    pub fn at(self, interface: NetworkInterface) -> Self {
        Self { interface, ..self }
    }

    /// Restricts the membership to this source.
    #[must_use]
    pub fn from_source(self, source: impl Into<IpAddr>) -> Self {
        Self { source: Some(source.into()), ..self }
    }
}

impl fmt::Display for MulticastMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.group)?;
        match self.interface {
            NetworkInterface::Any => {}
            NetworkInterface::Index(index) => write!(f, " at interface {index}")?,
            NetworkInterface::Address(address) => write!(f, " at {address}")?,
        }
        self.source.map_or(Ok(()), |source| write!(f, " from {source}"))
    }
}
