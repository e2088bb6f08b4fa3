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
    // It would be taken for an abstract name without letters, which is one that can be had.
    if address.addr_len() as usize == size_of::<libc::sa_family_t>() {
        return Some(Address::Unix(UnixAddress::Unnamed));
    }
    let unix = SocketAddrUnix::try_from(address).ok()?;
    Some(Address::Unix(match (unix.abstract_name(), unix.path_bytes()) {
        // What is bound nowhere looks like an empty name.
        (Some(name), _) if !name.is_empty() => UnixAddress::abstract_name(name),
        (_, Some(path)) => UnixAddress::path(OsStr::from_bytes(path)),
        _ => UnixAddress::Unnamed,
    }))
}

/// Whether anybody could send or connect there: not to a Unix socket that is bound nowhere.
pub(crate) fn is_named(address: &Address) -> bool {
    !matches!(address, Address::Unix(UnixAddress::Unnamed))
}

/// An IP address; for a transport that has no others.
pub(crate) fn ip(address: &Address, transport: &str) -> io::Result<SocketAddr> {
    match address {
        Address::Ip(address) => Ok(*address),
        other => Err(invalid(format!("{other} is no address of {transport}"))),
    }
}

/// An address of a Unix socket; for a transport that has no others.
pub(crate) fn unix(address: &Address) -> io::Result<&UnixAddress> {
    match address {
        Address::Unix(address) => Ok(address),
        other => Err(invalid(format!("{other} is no address of a Unix socket"))),
    }
}

/// Where somebody can be: connected or sent to.
pub(crate) fn unix_peer(address: &Address) -> io::Result<()> {
    match unix(address)? {
        UnixAddress::Unnamed => Err(invalid(format!("nobody can be at {address}"))),
        _ => Ok(()),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn c13_a_unix_socket_that_is_bound_nowhere_is_told_as_such() {
        let (one, _other) = UnixStream::pair().unwrap();
        let address = from_kernel(rustix::net::getsockname(&one).unwrap());
        assert_eq!(address, Some(UnixAddress::Unnamed.into()));
    }

    #[test]
    fn c13_addresses_go_to_the_kernel_and_back() {
        let all = [
            Address::Ip("127.0.0.1:80".parse().unwrap()),
            Address::Ip("[::1]:80".parse().unwrap()),
            UnixAddress::path("/run/door").into(),
            UnixAddress::abstract_name(b"a\0b").into(),
        ];
        for address in all {
            assert_eq!(from_kernel(in_kernel(&address).unwrap()), Some(address));
        }
    }

    #[test]
    fn c13_a_path_that_is_too_long_is_refused_by_name() {
        let long = UnixAddress::path("x".repeat(200)).into();
        assert!(in_kernel(&long).unwrap_err().to_string().contains("107 bytes"));
    }
}
