//! Addresses to bind and connect to, given as an address or as a name to resolve.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use waterwheel_executor::Promise;

use super::{Address, UnixAddress};

/// An address, or a host name and port that a [`Resolver`] turns into addresses.
///
/// ```
/// use std::net::IpAddr;
/// use waterwheel_channel::{AddressSpec, UnixAddress};
///
/// assert!(matches!(AddressSpec::from("127.0.0.1:80"), AddressSpec::Address(_)));
/// assert!(matches!(AddressSpec::from("localhost:80"), AddressSpec::Name(_)));
/// assert_eq!(AddressSpec::from("unix:/run/door"), UnixAddress::path("/run/door").into());
/// assert_eq!(AddressSpec::from("unix:@door"), UnixAddress::abstract_name("door").into());
/// assert_eq!(AddressSpec::from(("localhost", 80)), AddressSpec::from("localhost:80"));
/// assert_eq!(AddressSpec::from((IpAddr::from([127, 0, 0, 1]), 80)), AddressSpec::from("127.0.0.1:80"));
/// assert_eq!(AddressSpec::from("localhost:80").to_string(), "localhost:80");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressSpec {
    /// An address.
    Address(Address),
    /// A host name and a port, as in `"localhost:80"`. A [`Resolver`] resolves the name off the loop.
    Name(String),
}

/// Resolves host names to addresses.
pub trait Resolver: Send + Sync + 'static {
    /// Completes `found` with the addresses of a name and port, best first. `found` may be completed later, and on any
    /// thread. Must not block the calling thread.
    fn resolve(&self, name: &str, found: Promise<Vec<Address>>);
}

impl From<Address> for AddressSpec {
    fn from(address: Address) -> Self {
        AddressSpec::Address(address)
    }
}

impl From<UnixAddress> for AddressSpec {
    fn from(address: UnixAddress) -> Self {
        AddressSpec::Address(address.into())
    }
}

impl From<SocketAddr> for AddressSpec {
    fn from(address: SocketAddr) -> Self {
        AddressSpec::Address(address.into())
    }
}

impl From<(IpAddr, u16)> for AddressSpec {
    fn from(address: (IpAddr, u16)) -> Self {
        SocketAddr::from(address).into()
    }
}

impl From<&str> for AddressSpec {
    fn from(name: &str) -> Self {
        if let Some(unix) = name.strip_prefix("unix:") {
            return AddressSpec::Address(Address::Unix(match unix.strip_prefix('@') {
                Some(name) => UnixAddress::abstract_name(name),
                None => UnixAddress::path(unix),
            }));
        }
        match name.parse::<SocketAddr>() {
            Ok(address) => address.into(),
            Err(_) => AddressSpec::Name(name.to_owned()),
        }
    }
}

impl From<String> for AddressSpec {
    fn from(name: String) -> Self {
        name.as_str().into()
    }
}

impl From<(&str, u16)> for AddressSpec {
    fn from((host, port): (&str, u16)) -> Self {
        match host.parse::<IpAddr>() {
            Ok(ip) => (ip, port).into(),
            Err(_) => AddressSpec::Name(format!("{host}:{port}")),
        }
    }
}

impl fmt::Display for AddressSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressSpec::Address(address) => address.fmt(f),
            AddressSpec::Name(name) => f.write_str(name),
        }
    }
}
