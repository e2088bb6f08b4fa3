//! Groups of datagrams, and the interfaces they come by (C13).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A network interface of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkInterface {
    /// The one that the system's routes lead to.
    #[default]
    Any,
    /// The one with this number.
    Index(u32),
    /// The one with this address. IPv6 knows interfaces by their numbers only.
    Address(Ipv4Addr),
}

/// Being a member of a multicast group: what is sent to it by anybody, or by one source, is received.
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
    /// The group.
    pub group: IpAddr,
    /// Where it is listened to.
    pub interface: NetworkInterface,
    /// Whom it is listened to; `None`: to everybody.
    pub source: Option<IpAddr>,
}

impl MulticastMembership {
    /// Of this group, wherever the system's routes say, whoever sends.
    #[must_use]
    pub fn new(group: impl Into<IpAddr>) -> Self {
        Self { group: group.into(), interface: NetworkInterface::Any, source: None }
    }

    /// The same at this interface.
    #[must_use]
    pub fn at(self, interface: NetworkInterface) -> Self {
        Self { interface, ..self }
    }

    /// The same, listening to this source only.
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
