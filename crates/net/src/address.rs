//! Socket addresses: conversion to and from the kernel's `sockaddr` structures.

use std::ffi::OsStr;
use std::io;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix};
use waterwheel_channel::{Address, UnixAddress};

use crate::sys;

/// The length of `sun_path`. A path may fill `sun_path` without a terminating NUL; an abstract name has one
/// byte less.
const SUN_PATH_LEN: usize = size_of::<libc::sockaddr_un>() - PATH_OFFSET;
const PATH_OFFSET: usize = offset_of!(libc::sockaddr_un, sun_path);

/// Converts an address to the kernel's form.
pub(crate) fn to_kernel(address: &Address) -> io::Result<SocketAddrAny> {
    match address {
        Address::Ip(address) => Ok((*address).into()),
        Address::Unix(unix) => unix_to_kernel(unix).map(Into::into),
        other => Err(invalid_input(format!(
            "{other} is not an address of the operating system's sockets"
        ))),
    }
}

fn unix_to_kernel(address: &UnixAddress) -> io::Result<SocketAddrUnix> {
    let (kernel, limit) = match address {
        UnixAddress::Path(path) => {
            let bytes = path.as_os_str().as_bytes();
            // The kernel would read an empty path or a leading NUL as an abstract name, and any other NUL as the
            // end of the path.
            if bytes.is_empty() || bytes.contains(&0) {
                let what =
                    format!("{address:?} is not a valid path: it is empty or contains a NUL byte");
                return Err(invalid_input(what));
            }
            (SocketAddrUnix::new(bytes), ("a path of a Unix socket", SUN_PATH_LEN))
        }
        UnixAddress::Abstract(name) => {
            (SocketAddrUnix::new_abstract_name(name), ("an abstract name", SUN_PATH_LEN - 1))
        }
        _ => return Ok(SocketAddrUnix::new_unnamed()),
    };
    kernel.map_err(|error| match error {
        Errno::NAMETOOLONG => {
            let (kind, max) = limit;
            invalid_input(format!("{address} is too long: {kind} has at most {max} bytes"))
        }
        other => other.into(),
    })
}

/// Converts an address that the kernel has returned; `None` for an unsupported address family.
pub(crate) fn from_kernel(address: SocketAddrAny) -> Option<Address> {
    match address.address_family() {
        AddressFamily::UNIX => Some(unix_from_kernel(sys::address::bytes(&address)).into()),
        _ => SocketAddr::try_from(address).ok().map(Address::Ip),
    }
}

/// Decodes a `sockaddr_un` of any length, with or without a NUL at the end of its path.
fn unix_from_kernel(bytes: &[u8]) -> UnixAddress {
    match bytes.get(PATH_OFFSET..).unwrap_or_default() {
        [] => UnixAddress::Unnamed,
        [0, name @ ..] => UnixAddress::abstract_name(name),
        path => {
            let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
            UnixAddress::path(OsStr::from_bytes(&path[..end]))
        }
    }
}

/// True if a peer can connect or send to this address: false for an unbound Unix socket.
pub(crate) fn is_named(address: &Address) -> bool {
    !matches!(address, Address::Unix(UnixAddress::Unnamed))
}

/// Returns the IP address; an error for any other kind, which this transport does not support.
pub(crate) fn expect_ip(address: &Address, transport: &str) -> io::Result<SocketAddr> {
    match address {
        Address::Ip(address) => Ok(*address),
        other => {
            Err(invalid_input(format!("{other} is not an IP address, and {transport} needs one")))
        }
    }
}

/// Returns the Unix address; an error for any other kind.
pub(crate) fn expect_unix(address: &Address) -> io::Result<&UnixAddress> {
    match address {
        Address::Unix(address) => Ok(address),
        other => Err(invalid_input(format!("{other} is not an address of a Unix socket"))),
    }
}

/// Returns an error unless a Unix socket can connect or send to this address.
pub(crate) fn expect_unix_peer(address: &Address) -> io::Result<()> {
    match expect_unix(address)? {
        UnixAddress::Unnamed => Err(invalid_input(format!(
            "cannot connect or send to {address}: no socket can be bound there"
        ))),
        _ => Ok(()),
    }
}

fn invalid_input(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn c13_an_unbound_unix_socket_has_the_unnamed_address() {
        let (one, _other) = UnixStream::pair().unwrap();
        let address = from_kernel(rustix::net::getsockname(&one).unwrap());
        assert_eq!(address, Some(UnixAddress::Unnamed.into()));
    }

    #[test]
    fn c13_addresses_convert_to_the_kernels_form_and_back() {
        let all = [
            Address::Ip("127.0.0.1:80".parse().unwrap()),
            Address::Ip("[::1]:80".parse().unwrap()),
            UnixAddress::path("/run/door").into(),
            UnixAddress::path("/").into(),
            UnixAddress::path("x".repeat(SUN_PATH_LEN - 1)).into(),
            UnixAddress::path("x".repeat(SUN_PATH_LEN)).into(),
            UnixAddress::abstract_name(b"a\0b").into(),
            UnixAddress::abstract_name("x".repeat(SUN_PATH_LEN - 1)).into(),
            UnixAddress::abstract_name("").into(),
            UnixAddress::Unnamed.into(),
        ];
        for address in all {
            assert_eq!(from_kernel(to_kernel(&address).unwrap()), Some(address));
        }
    }

    #[test]
    fn c13_a_path_that_is_too_long_or_invalid_is_refused_with_the_path_in_the_error() {
        let refused = |address: UnixAddress| to_kernel(&address.into()).unwrap_err().to_string();
        let long = refused(UnixAddress::path("x".repeat(SUN_PATH_LEN + 1)));
        assert!(
            long.ends_with("is too long: a path of a Unix socket has at most 108 bytes"),
            "{long}"
        );
        let long = refused(UnixAddress::abstract_name("x".repeat(SUN_PATH_LEN)));
        assert!(long.ends_with("is too long: an abstract name has at most 107 bytes"), "{long}");
        for path in ["", "a\0b", "\0a"] {
            assert!(refused(UnixAddress::path(path)).contains("is not a valid path"));
        }
    }

    #[test]
    fn c13_unix_addresses_of_any_length_are_decoded() {
        let family = u16::try_from(libc::AF_UNIX).unwrap().to_ne_bytes();
        let decoded = |name: &[u8]| unix_from_kernel(&[&family, name].concat());
        assert_eq!(unix_from_kernel(&[]), UnixAddress::Unnamed);
        assert_eq!(decoded(b""), UnixAddress::Unnamed);
        assert_eq!(decoded(b"/a"), UnixAddress::path("/a"), "without a NUL");
        assert_eq!(decoded(b"/a\0"), UnixAddress::path("/a"));
        assert_eq!(decoded(b"/a\0rest"), UnixAddress::path("/a"));
        assert_eq!(decoded(b"\0a\0b"), UnixAddress::abstract_name(b"a\0b"));
        let reported = [&[b'x'; SUN_PATH_LEN][..], b"\0"].concat();
        assert_eq!(decoded(&reported), UnixAddress::path("x".repeat(SUN_PATH_LEN)), "of 111 bytes");
        assert_eq!(decoded(&[b'x'; 126]), UnixAddress::path("x".repeat(126)), "sockaddr_storage");
    }
}
