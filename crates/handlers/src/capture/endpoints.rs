//! The IP addresses that stand for the ends of a channel in a capture.
//!
//! An end that has an IP address keeps it. Any other end (a Unix socket, a channel within the process, an embedded
//! channel) gets an address of the range for benchmarks, 198.18.0.0/15 (RFC 2544), which is in no real network:
//!
//! | end | address | port |
//! |---|---|---|
//! | local | 198.18.0.1 | 1 + id mod 65,535 |
//! | peer | 198.19.0.0 + id / 65,535 | 1 + id mod 65,535 |
//!
//! *id* is the number of the channel, so channels are told apart. A mapped address (`::ffff:192.0.2.1`), as the sockets
//! of a server for both IP versions have for IPv4 clients, is recorded as the IPv4 address in it. If one end has an IPv6
//! address and the other an IPv4 address, the latter is mapped.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use waterwheel_channel::Address;

use super::packet::PacketEnds;

/// The address of a local end that has no IP address. The notes about dropped packets come from it too.
pub(super) const SYNTHETIC_LOCAL: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Returns the addresses of the local end (as source) and of the peer (as destination).
pub(super) fn endpoints(local: Option<&Address>, peer: Option<&Address>, id: u64) -> PacketEnds {
    let ports = u64::from(u16::MAX);
    let port = 1 + (id % ports) as u16;
    let [high, low] = ((id / ports) as u16).to_be_bytes();
    let synthetic_peer = Ipv4Addr::new(198, 19, high, low);
    let or_synthetic = |address: Option<&Address>, synthetic: Ipv4Addr| {
        let end = address.and_then(Address::socket_addr);
        let end = end.unwrap_or(SocketAddr::new(synthetic.into(), port));
        SocketAddr::new(end.ip().to_canonical(), end.port())
    };
    let source = or_synthetic(local, SYNTHETIC_LOCAL);
    let destination = or_synthetic(peer, synthetic_peer);
    if source.is_ipv4() == destination.is_ipv4() {
        PacketEnds { source, destination }
    } else {
        PacketEnds { source: mapped(source), destination: mapped(destination) }
    }
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use waterwheel_channel::UnixAddress;

    use super::*;

    #[test]
    fn k06_every_kind_of_address_has_an_ip_address() {
        let ip = |text: &str| Some(Address::from(text.parse::<SocketAddr>().unwrap()));
        let unix = Some(Address::from(UnixAddress::path("/run/door")));
        for (local, peer, id, expected) in [
            (ip("192.0.2.1:80"), ip("192.0.2.2:9"), 7, ("192.0.2.1:80", "192.0.2.2:9")),
            (ip("[::1]:80"), ip("[::2]:9"), 7, ("[::1]:80", "[::2]:9")),
            (ip("[::1]:80"), ip("192.0.2.2:9"), 7, ("[::1]:80", "[::ffff:192.0.2.2]:9")),
            (ip("[::ffff:192.0.2.1]:80"), ip("192.0.2.2:9"), 7, ("192.0.2.1:80", "192.0.2.2:9")),
            (ip("[::1]:80"), ip("[::ffff:192.0.2.2]:9"), 7, ("[::1]:80", "[::ffff:192.0.2.2]:9")),
            (ip("192.0.2.1:80"), None, 7, ("192.0.2.1:80", "198.19.0.0:8")),
            (ip("[::1]:80"), None, 7, ("[::1]:80", "[::ffff:198.19.0.0]:8")),
            (unix, Some(Address::local("x")), 0, ("198.18.0.1:1", "198.19.0.0:1")),
            (None, None, 65_534, ("198.18.0.1:65535", "198.19.0.0:65535")),
            (None, None, 65_535 * 259 + 3, ("198.18.0.1:4", "198.19.1.3:4")),
        ] {
            let ends = endpoints(local.as_ref(), peer.as_ref(), id);
            assert_eq!((&*ends.source.to_string(), &*ends.destination.to_string()), expected);
        }
    }
}
