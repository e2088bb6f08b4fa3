//! Addresses, as the kernel has them.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix};
use waterwheel_channel::{Address, UnixAddress};

/// The address, for the kernel.
pub(crate) fn in_kernel(address: &Address) -> io::Result<SocketAddrAny> {
    match address {
        Address::Ip(address) => Ok((*address).into()),
        Address::Unix(unix) => unix_in_kernel(unix).map(Into::into).map_err(|error| match error {
            Errno::NAMETOOLONG => {
                invalid(format!("{address} is too long: the system takes 107 bytes"))
            }
            other => other.into(),
        }),
        other => Err(invalid(format!("{other} is no address that the system knows"))),
    }
}

fn unix_in_kernel(address: &UnixAddress) -> rustix::io::Result<SocketAddrUnix> {
    match address {
        UnixAddress::Path(path) => SocketAddrUnix::new(&**path),
        UnixAddress::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
        _ => Ok(SocketAddrUnix::new_unnamed()),
    }
}

/// The address that the kernel has given; of a kind that is not known here, none.
pub(crate) fn from_kernel(address: SocketAddrAny) -> Option<Address> {
    if address.address_family() != AddressFamily::UNIX {
        return SocketAddr::try_from(address).ok().map(Address::Ip);
    }
    let unix = SocketAddrUnix::try_from(address).ok()?;
    Some(Address::Unix(match (unix.abstract_name(), unix.path_bytes()) {
        (Some(name), _) => UnixAddress::abstract_name(name),
        (None, Some(path)) => UnixAddress::path(OsStr::from_bytes(path)),
        (None, None) => UnixAddress::Unnamed,
    }))
}

/// An IP address; for a transport that has no others.
pub(crate) fn ip(address: &Address, transport: &str) -> io::Result<SocketAddr> {
    match address {
        Address::Ip(address) => Ok(*address),
        other => Err(invalid(format!("{other} is no address of {transport}"))),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
