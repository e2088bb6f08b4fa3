//! The PROXY header: the addresses of a proxied connection and further entries.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use bytes::{Bytes, BytesMut};
use waterwheel_channel::{Address, Message, UnixAddress};

use super::error::ProxyError;
use super::tlv::ProxyTlv;
use super::{binary_header, text_header};

/// A PROXY header: the addresses of the client's connection, and entries of other types.
///
/// [`ProxyServer`](crate::ProxyServer) fires the header as a user event.
///
/// ```
/// use bytes::BytesMut;
/// use waterwheel_codec::ProxyHeader;
///
/// let client = "203.0.113.7:51000".parse()?;
/// let server = "192.0.2.1:443".parse()?;
/// let header = ProxyHeader::tcp(client, server);
/// let mut wire = BytesMut::new();
/// header.encode_v1(&mut wire)?;
/// assert_eq!(wire, "PROXY TCP4 203.0.113.7 192.0.2.1 51000 443\r\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyHeader {
    /// True if the proxy opened the connection for itself (LOCAL), for instance for a health check. Not in version 1.
    pub is_local: bool,
    /// The addresses; `None` for a LOCAL connection, or if the proxy does not know them.
    pub addresses: Option<ProxyAddresses>,
    /// Further entries (TLVs). Version 1 has none.
    pub tlvs: Vec<ProxyTlv>,
}

/// The two ends of the connection that a proxy accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyAddresses {
    /// IP addresses of one family.
    Ip {
        /// The client's address.
        source: SocketAddr,
        /// The address that the client connected to.
        destination: SocketAddr,
        /// True for UDP, false for TCP.
        is_datagram: bool,
    },
    /// Unix sockets.
    Unix {
        /// The client's address.
        source: UnixAddress,
        /// The address that the client connected to.
        destination: UnixAddress,
        /// True for datagram sockets, false for stream sockets.
        is_datagram: bool,
    },
}

impl ProxyHeader {
    /// Creates the header of a TCP connection from `source` to `destination`.
    #[must_use]
    pub fn tcp(source: SocketAddr, destination: SocketAddr) -> Self {
        let addresses = ProxyAddresses::Ip { source, destination, is_datagram: false };
        Self { addresses: Some(addresses), ..Self::default() }
    }

    /// Creates the header of a LOCAL connection.
    #[must_use]
    pub fn local() -> Self {
        Self { is_local: true, ..Self::default() }
    }

    /// Returns the client's address if the header has one.
    #[must_use]
    pub fn source(&self) -> Option<Address> {
        Some(match self.addresses.as_ref()? {
            ProxyAddresses::Ip { source, .. } => Address::Ip(*source),
            ProxyAddresses::Unix { source, .. } => Address::Unix(source.clone()),
        })
    }

    /// Returns the value of the first entry of this type.
    #[must_use]
    pub fn tlv(&self, kind: u8) -> Option<&Bytes> {
        self.tlvs.iter().find(|tlv| tlv.kind == kind).map(|tlv| &tlv.value)
    }

    /// Appends the header in version 1 to `dst`. LOCAL connections and unknown addresses are written as `UNKNOWN`.
    ///
    /// # Errors
    /// Version 1 cannot express the header; nothing is written.
    pub fn encode_v1(&self, dst: &mut BytesMut) -> Result<(), ProxyError> {
        text_header::encode(self, dst)
    }

    /// Appends the header in version 2 (binary) to `dst`.
    ///
    /// # Errors
    /// The two addresses differ in family, or the entries are too long; nothing is written.
    pub fn encode_v2(&self, dst: &mut BytesMut) -> Result<(), ProxyError> {
        binary_header::encode(self, dst)
    }
}

impl Message for ProxyHeader {
    fn size_hint(&self) -> usize {
        self.tlvs.iter().map(|tlv| tlv.value.len()).sum::<usize>() + binary_header::MAX_ADDRESSES
    }
}

/// Parses a Unix address field: a path up to the first zero byte, or an abstract name after a leading one.
pub(super) fn unix_address(field: &[u8]) -> UnixAddress {
    let end = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    match field {
        [0, name @ ..] if end(name) == 0 => UnixAddress::Unnamed,
        [0, name @ ..] => UnixAddress::abstract_name(&name[..end(name)]),
        path => {
            let length = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
            UnixAddress::path(std::ffi::OsStr::from_bytes(&path[..length]))
        }
    }
}

/// Returns the bytes of a Unix address field without the zero padding.
pub(super) fn unix_field(address: &UnixAddress) -> Vec<u8> {
    match address {
        UnixAddress::Path(path) => path.as_os_str().as_bytes().to_vec(),
        UnixAddress::Abstract(name) => [&[0], &name[..]].concat(),
        _ => Vec::new(),
    }
}
