//! Version 2 of the PROXY protocol: binary, with entries.
//!
//! ```text
//!   signature (12) │ version, command (1) │ family, transport (1) │ length (2) │ addresses │ entries
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::Quoted;

use super::checksum::crc32c;
use super::error::ProxyError;
use super::header::{ProxyAddresses, ProxyHeader, unix_address, unix_field};
use super::tlv::{HEAD as TLV_HEAD, ProxyTlv};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Length of the fixed part, up to the length field.
pub(super) const FIXED: usize = 16;

/// Maximum length of the addresses: those of Unix sockets.
pub(super) const MAX_ADDRESSES: usize = 2 * UNIX;

/// Length of one Unix socket address.
const UNIX: usize = 108;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

/// Parses the header at the front. Returns it with its length, or `None` if it is incomplete.
pub(super) fn decode(
    buf: &Bytes,
    limit: usize,
) -> Result<Option<(ProxyHeader, usize)>, ProxyError> {
    let Some(fixed) = buf.first_chunk::<FIXED>() else { return Ok(None) };
    let (command, family) = (fixed[12], fixed[13]);
    if command != LOCAL && command != PROXY {
        return Err(malformed("version and command", &[command]));
    }
    let Some(addresses) = addresses_length(family) else {
        return Err(malformed("family and transport", &[family]));
    };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if FIXED + length > limit {
        return Err(ProxyError::TooLong { limit });
    }
    // LOCAL and AF_UNSPEC: the specification says to skip the rest of the header.
    let skipped = command == LOCAL || addresses == 0;
    if !skipped && length < addresses {
        return Err(malformed("length of these addresses", &fixed[14..]));
    }
    let end = FIXED + length;
    if buf.len() < end {
        return Ok(None);
    }
    if skipped {
        let is_local = command == LOCAL;
        return Ok(Some((ProxyHeader { is_local, ..ProxyHeader::default() }, end)));
    }
    let tlvs = ProxyTlv::parse(buf.slice(FIXED + addresses..end))?;
    check_sum(&buf[..end], FIXED + addresses, &tlvs)?;
    let tlvs = tlvs.into_iter().filter(|tlv| tlv.kind != ProxyTlv::CRC32C).collect();
    let addresses = Some(addresses_of(family, &buf[FIXED..FIXED + addresses]));
    Ok(Some((ProxyHeader { is_local: false, addresses, tlvs }, end)))
}

/// Returns the length of the addresses of this family, or `None` for an unknown family or transport.
fn addresses_length(family: u8) -> Option<usize> {
    match family {
        0x00 => Some(0),
        0x11 | 0x12 => Some(12),
        0x21 | 0x22 => Some(36),
        0x31 | 0x32 => Some(MAX_ADDRESSES),
        _ => None,
    }
}

/// Parses the addresses of a family.
fn addresses_of(family: u8, bytes: &[u8]) -> ProxyAddresses {
    let is_datagram = family & 0x0f == 2;
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    if family >> 4 == 3 {
        let (source, destination) = (unix_address(&bytes[..UNIX]), unix_address(&bytes[UNIX..]));
        return ProxyAddresses::Unix { source, destination, is_datagram };
    }
    let (source, destination) = if family >> 4 == 1 {
        let ip =
            |at: usize| Ipv4Addr::from([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (SocketAddr::from((ip(0), port(8))), SocketAddr::from((ip(4), port(10))))
    } else {
        let ip = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[at..at + 16]);
            Ipv6Addr::from(octets)
        };
        (SocketAddr::from((ip(0), port(32))), SocketAddr::from((ip(16), port(34))))
    };
    ProxyAddresses::Ip { source, destination, is_datagram }
}

/// Verifies the CRC32c entry if present: the checksum of the header with zeros in its place.
fn check_sum(header: &[u8], first: usize, tlvs: &[ProxyTlv]) -> Result<(), ProxyError> {
    let mut at = first;
    for tlv in tlvs {
        let value = at + TLV_HEAD..at + TLV_HEAD + tlv.value.len();
        if tlv.kind == ProxyTlv::CRC32C {
            let Some(&found) = tlv.value.first_chunk().filter(|_| tlv.value.len() == 4) else {
                return Err(malformed("checksum", &tlv.value));
            };
            let found = u32::from_be_bytes(found);
            let zeroed = header.iter().enumerate();
            let expected =
                crc32c(zeroed.map(|(at, byte)| if value.contains(&at) { 0 } else { *byte }));
            if found != expected {
                return Err(ProxyError::Checksum { expected, found });
            }
        }
        at = value.end;
    }
    Ok(())
}

pub(super) fn encode(header: &ProxyHeader, dst: &mut BytesMut) -> Result<(), ProxyError> {
    let mut addresses = BytesMut::with_capacity(MAX_ADDRESSES);
    let family = match &header.addresses {
        _ if header.is_local => 0,
        None => 0,
        Some(some) => put_addresses(some, &mut addresses)?,
    };
    // A reader skips everything after AF_UNSPEC.
    let tlvs = if family == 0 { &[][..] } else { &header.tlvs[..] };
    let size = |tlv: &ProxyTlv| TLV_HEAD + tlv.value.len();
    let sizes: usize = tlvs.iter().map(size).sum();
    let Ok(length) = u16::try_from(addresses.len() + sizes) else {
        return Err(ProxyError::NotWritten {
            version: 2,
            what: "headers of more than 65,551 bytes",
        });
    };
    let begin = dst.len();
    dst.reserve(FIXED + usize::from(length));
    dst.put_slice(SIGNATURE);
    dst.put_u8(if header.is_local { LOCAL } else { PROXY });
    dst.put_u8(family);
    dst.put_u16(length);
    dst.put_slice(&addresses);
    for tlv in tlvs {
        tlv.put(dst);
    }
    put_sum(&mut dst[begin..], FIXED + addresses.len(), tlvs);
    Ok(())
}

/// Fills in the CRC32c entry if present.
fn put_sum(header: &mut [u8], first: usize, tlvs: &[ProxyTlv]) {
    let mut at = first;
    for tlv in tlvs {
        let value = at + TLV_HEAD..at + TLV_HEAD + tlv.value.len();
        at = value.end;
        if tlv.kind == ProxyTlv::CRC32C && value.len() == 4 {
            header[value.clone()].fill(0);
            let sum = crc32c(header.iter().copied());
            header[value].copy_from_slice(&sum.to_be_bytes());
            return;
        }
    }
}

/// Appends addresses to `dst`. Returns their family and transport.
fn put_addresses(addresses: &ProxyAddresses, dst: &mut BytesMut) -> Result<u8, ProxyError> {
    let transport = |is_datagram: bool| if is_datagram { 2 } else { 1 };
    match addresses {
        ProxyAddresses::Ip { source, destination, is_datagram } => {
            let family = match (source.ip(), destination.ip()) {
                (IpAddr::V4(source), IpAddr::V4(destination)) => {
                    dst.put_slice(&source.octets());
                    dst.put_slice(&destination.octets());
                    0x10
                }
                (IpAddr::V6(source), IpAddr::V6(destination)) => {
                    dst.put_slice(&source.octets());
                    dst.put_slice(&destination.octets());
                    0x20
                }
                _ => {
                    let what = "addresses of two families";
                    return Err(ProxyError::NotWritten { version: 2, what });
                }
            };
            dst.put_u16(source.port());
            dst.put_u16(destination.port());
            Ok(family | transport(*is_datagram))
        }
        ProxyAddresses::Unix { source, destination, is_datagram } => {
            for address in [source, destination] {
                let field = unix_field(address);
                if field.len() > UNIX {
                    let what = "addresses of more than 108 bytes";
                    return Err(ProxyError::NotWritten { version: 2, what });
                }
                dst.put_slice(&field);
                dst.put_bytes(0, UNIX - field.len());
            }
            Ok(0x30 | transport(*is_datagram))
        }
    }
}

fn malformed(expected: &'static str, found: &[u8]) -> ProxyError {
    ProxyError::Malformed { expected, found: Quoted::new(found) }
}
