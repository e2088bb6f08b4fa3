//! Addresses of Unix sockets.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The address of a Unix socket.
///
/// ```
/// use waterwheel_channel::{Address, UnixAddress};
///
/// let path = Address::from(UnixAddress::path("/run/door.sock"));
/// assert_eq!(path.to_string(), "unix:/run/door.sock");
/// let name = UnixAddress::abstract_name("door");
/// assert_eq!(name.to_string(), "unix:@door");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnixAddress {
    /// A path in the file system: a file of the socket type, which exists until it is removed.
    Path(Arc<Path>),
    /// A name in Linux's abstract namespace, of any bytes, which disappears when its socket is closed.
    Abstract(Arc<[u8]>),
    /// No address: the client end of a stream, or a socket of a socket pair. No peer can connect or send to it.
    Unnamed,
}

impl UnixAddress {
    /// Creates the address with this path.
    #[must_use]
    pub fn path(path: impl AsRef<Path>) -> Self {
        UnixAddress::Path(path.as_ref().into())
    }

    /// Creates the address with this abstract name.
    #[must_use]
    pub fn abstract_name(name: impl AsRef<[u8]>) -> Self {
        UnixAddress::Abstract(name.as_ref().into())
    }
}

impl fmt::Display for UnixAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnixAddress::Path(path) => write!(f, "unix:{}", path.display()),
            UnixAddress::Abstract(name) => write!(f, "unix:@{}", name.escape_ascii()),
            UnixAddress::Unnamed => f.write_str("unix:(unnamed)"),
        }
    }
}
