//! The PROXY header: what a proxy says about a connection.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use bytes::{Bytes, BytesMut};
use waterwheel_channel::{Address, Message, UnixAddress};

use super::error::ProxyError;
use super::tlv::ProxyTlv;
use super::{version1, version2};

/// A PROXY header: the addresses of the client's connection, and entries of other types.
///
/// As a user event it tells the handlers behind a [`ProxyServer`](crate::ProxyServer).
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
    /// The connection is the proxy's own, for a health check for instance. Version 1 has no such thing.
    pub is_local: bool,
    /// The addresses; `None` if the connection is the proxy's own, or if it does not know them.
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
        /// By UDP, and not by TCP.
        is_datagram: bool,
    },
    /// Unix sockets.
    Unix {
        /// The client's address.
        source: UnixAddress,
        /// The address that the client connected to.
        destination: UnixAddress,
        /// By datagrams, and not by a stream.
        is_datagram: bool,
    },
}

impl ProxyHeader {
    /// Says that a TCP connection came from `source`, and went to `destination`.
    #[must_use]
    pub fn tcp(source: SocketAddr, destination: SocketAddr) -> Self {
        let addresses = ProxyAddresses::Ip { source, destination, is_datagram: false };
        Self { addresses: Some(addresses), ..Self::default() }
    }

    /// Says that the connection is the proxy's own.
    #[must_use]
    pub fn local() -> Self {
        Self { is_local: true, ..Self::default() }
    }

    /// Returns the address of whoever connected, if it is told.
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

    /// Puts the header as a line of version 1 at the end of `dst`. What is the proxy's own or unknown is `UNKNOWN`.
    ///
    /// # Errors
    /// There is something in it that version 1 does not have; nothing is put there.
    pub fn encode_v1(&self, dst: &mut BytesMut) -> Result<(), ProxyError> {
        version1::encode(self, dst)
    }

    /// Puts the header in the binary form of version 2 at the end of `dst`.
    ///
    /// # Errors
    /// Addresses are of two families, or an entry or all of them are too long; nothing is put there.
    pub fn encode_v2(&self, dst: &mut BytesMut) -> Result<(), ProxyError> {
        version2::encode(self, dst)
    }
}

impl Message for ProxyHeader {
    fn size_hint(&self) -> usize {
        self.tlvs.iter().map(|tlv| tlv.value.len()).sum::<usize>() + version2::MAX_ADDRESSES
    }
}

/// Returns the address that this field of a header holds: a path up to its first zero, or a name behind one.
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

/// Returns the bytes of a field of a header that holds this address, without the zeros behind them.
pub(super) fn unix_field(address: &UnixAddress) -> Vec<u8> {
    match address {
        UnixAddress::Path(path) => path.as_os_str().as_bytes().to_vec(),
        UnixAddress::Abstract(name) => [&[0], &name[..]].concat(),
        _ => Vec::new(),
    }
}
