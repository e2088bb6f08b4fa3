//! Addresses of Unix sockets.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a Unix socket is bound.
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
    /// A path: there is a file, of the socket kind, as long as nobody removes it.
    Path(Arc<Path>),
    /// A name outside of all file systems, which ends with its socket. It may be any bytes. Linux has them.
    Abstract(Arc<[u8]>),
    /// Nowhere: the client of a stream, or one of a pair. Nobody can connect or send to it.
    Unnamed,
}

impl UnixAddress {
    /// The address with this path.
    #[must_use]
    pub fn path(path: impl AsRef<Path>) -> Self {
        UnixAddress::Path(path.as_ref().into())
    }

    /// The address with this name, outside of all file systems.
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
