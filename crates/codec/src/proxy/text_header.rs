//! Version 1 of the PROXY protocol: a line of text.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::BytesMut;
use memchr::memchr;
use waterwheel_channel::Quoted;

use super::error::ProxyError;
use super::header::{ProxyAddresses, ProxyHeader};

/// The prefix of a version 1 header.
pub(super) const PREFIX: &[u8] = b"PROXY ";

/// Maximum length of a version 1 header with its line end, by the specification.
pub(super) const MAX_LINE: usize = 107;

/// Parses the header at the front. Returns it with its length, or `None` if it is incomplete.
pub(super) fn decode(buf: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyError> {
    let seen = &buf[..buf.len().min(MAX_LINE)];
    let Some(end) = memchr(b'\n', seen) else {
        let too_long = seen.len() == MAX_LINE;
        return if too_long { Err(ProxyError::TooLong { limit: MAX_LINE }) } else { Ok(None) };
    };
    let Some(line) = seen[..end].strip_suffix(b"\r") else {
        return Err(malformed("line that ends with \\r\\n", &seen[..end]));
    };
    let text = str::from_utf8(line).map_err(|_| malformed("line of text", line))?;
    let header =
        parse(&text[PREFIX.len()..]).ok_or_else(|| malformed("line of version 1", line))?;
    Ok(Some((header, end + 1)))
}

fn parse(fields: &str) -> Option<ProxyHeader> {
    if fields == "UNKNOWN" || fields.starts_with("UNKNOWN ") {
        return Some(ProxyHeader::default());
    }
    let mut fields = fields.split(' ');
    let address = match fields.next()? {
        "TCP4" => |text: &str| Some(IpAddr::V4(text.parse::<Ipv4Addr>().ok()?)),
        "TCP6" => |text: &str| Some(IpAddr::V6(text.parse::<Ipv6Addr>().ok()?)),
        _ => return None,
    };
    let (source, destination) = (address(fields.next()?)?, address(fields.next()?)?);
    let (from, to) = (port(fields.next()?)?, port(fields.next()?)?);
    if fields.next().is_some() {
        return None;
    }
    Some(ProxyHeader::tcp(SocketAddr::new(source, from), SocketAddr::new(destination, to)))
}

/// Parses a port: digits only, without leading zeros.
fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits && (text == "0" || !text.starts_with('0')) { text.parse().ok() } else { None }
}

pub(super) fn encode(header: &ProxyHeader, dst: &mut BytesMut) -> Result<(), ProxyError> {
    let none = |what| Err(ProxyError::NotWritten { version: 1, what });
    if !header.tlvs.is_empty() {
        return none("entries");
    }
    let (source, destination) = match &header.addresses {
        None => {
            dst.extend_from_slice(b"PROXY UNKNOWN\r\n");
            return Ok(());
        }
        Some(ProxyAddresses::Ip { source, destination, is_datagram: false }) => {
            (source, destination)
        }
        Some(_) => return none("addresses but those of TCP"),
    };
    let family = match (source, destination) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => "TCP4",
        (SocketAddr::V6(_), SocketAddr::V6(_)) => "TCP6",
        _ => return none("addresses of two families"),
    };
    let (from, to) = (source.port(), destination.port());
    // Writing to a growable buffer cannot fail.
    let _ = write!(dst, "PROXY {family} {} {} {from} {to}\r\n", source.ip(), destination.ip());
    Ok(())
}

fn malformed(expected: &'static str, found: &[u8]) -> ProxyError {
    ProxyError::Malformed { expected, found: Quoted::new(found) }
}
