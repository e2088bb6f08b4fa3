//! IP packets with a TCP or UDP header, as bytes.
//!
//! A packet is built from its ends and its payload; nothing here knows a channel or a file. Checksums are those of RFC
//! 1071, over the whole payload, and zero if a part of the payload is not in memory: readers do not verify the checksum
//! of a packet that was cut off.

use std::net::{IpAddr, SocketAddr};

/// The longest headers: IPv6, and TCP with two options.
const MAX_HEADERS: usize = IPV6_HEADER + TCP_HEADER + SYN_OPTIONS.len();

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// The longest payload of a UDP packet over IPv4, whose length field counts all headers; kept over IPv6 too.
pub(super) const MAX_UDP_PAYLOAD: usize = u16::MAX as usize - IPV4_HEADER - UDP_HEADER;

/// The longest payload of a TCP segment: with the headers of either IP version it fits 65,535 bytes.
pub(super) const MAX_TCP_PAYLOAD: usize = u16::MAX as usize - IPV6_HEADER - TCP_HEADER;

/// The flags of a TCP header.
pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;

/// The window that a TCP header announces: with [`WINDOW_SCALE`] 16 MiB, except in a SYN.
const WINDOW: u16 = u16::MAX;
const WINDOW_SCALE: u8 = 8;

/// The options of a SYN: the maximum segment size, a filler, the window scale.
const SYN_OPTIONS: [u8; 8] = {
    let mss = (MAX_TCP_PAYLOAD as u16).to_be_bytes();
    [2, 4, mss[0], mss[1], 1, 3, 3, WINDOW_SCALE]
};

/// The source and the destination of a packet. Both have the same IP version: see `endpoints`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketEnds {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
}

/// The fields of a TCP header that differ from segment to segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpFields {
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    /// The identification of the IPv4 packet.
    pub(super) ip_id: u16,
}

/// The payload of a packet, or the part of it that is in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload<'a> {
    pub(super) bytes: &'a [u8],
    /// The length of the whole payload; not less than that of `bytes`.
    pub(super) whole: usize,
}

impl<'a> Payload<'a> {
    pub(super) const EMPTY: Payload<'static> = Payload { bytes: &[], whole: 0 };

    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, whole: bytes.len() }
    }
}

/// A packet: headers, and a payload that is not copied.
pub(super) struct Packet<'a> {
    headers: [u8; MAX_HEADERS],
    headers_len: usize,
    payload: Payload<'a>,
}

impl<'a> Packet<'a> {
    /// Builds a TCP segment. A SYN has options.
    pub(super) fn tcp(ends: PacketEnds, fields: TcpFields, payload: Payload<'a>) -> Self {
        let TcpFields { flags, sequence, acknowledged, ip_id } = fields;
        let options: &[u8] = if flags & SYN == 0 { &[] } else { &SYN_OPTIONS };
        let header_len = TCP_HEADER + options.len();
        let mut header = [0; TCP_HEADER + SYN_OPTIONS.len()];
        put(&mut header, 0, &ends.source.port().to_be_bytes());
        put(&mut header, 2, &ends.destination.port().to_be_bytes());
        put(&mut header, 4, &sequence.to_be_bytes());
        put(&mut header, 8, &acknowledged.to_be_bytes());
        put(&mut header, 12, &[(header_len as u8 / 4) << 4, flags]);
        put(&mut header, 14, &WINDOW.to_be_bytes());
        put(&mut header, TCP_HEADER, options);
        let header = &mut header[..header_len];
        let checksum = transport_checksum(ends, PROTOCOL_TCP, header, payload);
        put(header, 16, &checksum.to_be_bytes());
        Self::with_ip_header(ends, PROTOCOL_TCP, ip_id, header, payload)
    }

    /// Builds a UDP packet. The caller keeps the payload within [`MAX_UDP_PAYLOAD`].
    pub(super) fn udp(ends: PacketEnds, ip_id: u16, payload: Payload<'a>) -> Self {
        let mut header = [0; UDP_HEADER];
        put(&mut header, 0, &ends.source.port().to_be_bytes());
        put(&mut header, 2, &ends.destination.port().to_be_bytes());
        put(&mut header, 4, &((UDP_HEADER + payload.whole) as u16).to_be_bytes());
        let checksum = match transport_checksum(ends, PROTOCOL_UDP, &header, payload) {
            0 if payload.bytes.len() == payload.whole => 0xffff, // Zero would mean "no checksum".
            checksum => checksum,
        };
        put(&mut header, 6, &checksum.to_be_bytes());
        Self::with_ip_header(ends, PROTOCOL_UDP, ip_id, &header, payload)
    }

    fn with_ip_header(
        ends: PacketEnds,
        protocol: u8,
        ip_id: u16,
        header: &[u8],
        payload: Payload<'a>,
    ) -> Self {
        let mut headers = [0; MAX_HEADERS];
        let ip_len = match (ends.source.ip(), ends.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = (IPV4_HEADER + header.len() + payload.whole) as u16;
                // Version 4, a header of five words; "don't fragment"; a time to live of 64.
                put(&mut headers, 0, &[0x45]);
                put(&mut headers, 2, &total.to_be_bytes());
                put(&mut headers, 4, &ip_id.to_be_bytes());
                put(&mut headers, 6, &[0x40, 0, 64, protocol]);
                put(&mut headers, 12, &source.octets());
                put(&mut headers, 16, &destination.octets());
                let checksum = finish_sum(add_sum(0, &headers[..IPV4_HEADER]));
                put(&mut headers, 10, &checksum.to_be_bytes());
                IPV4_HEADER
            }
            (source, destination) => {
                let length = (header.len() + payload.whole) as u16;
                put(&mut headers, 0, &[0x60]);
                put(&mut headers, 4, &length.to_be_bytes());
                put(&mut headers, 6, &[protocol, 64]);
                put(&mut headers, 8, &ipv6_octets(source));
                put(&mut headers, 24, &ipv6_octets(destination));
                IPV6_HEADER
            }
        };
        put(&mut headers, ip_len, header);
        Self { headers, headers_len: ip_len + header.len(), payload }
    }

    /// Returns the headers.
    pub(super) fn headers(&self) -> &[u8] {
        &self.headers[..self.headers_len]
    }

    /// Returns the payload that is in memory.
    pub(super) fn payload(&self) -> &'a [u8] {
        self.payload.bytes
    }

    /// Returns the length of the packet with its whole payload.
    pub(super) fn whole_len(&self) -> usize {
        self.headers_len + self.payload.whole
    }
}

fn put(target: &mut [u8], at: usize, bytes: &[u8]) {
    target[at..at + bytes.len()].copy_from_slice(bytes);
}

fn ipv6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the checksum of a TCP or UDP header with its payload; zero if the payload is incomplete.
fn transport_checksum(ends: PacketEnds, protocol: u8, header: &[u8], payload: Payload<'_>) -> u16 {
    if payload.bytes.len() < payload.whole {
        return 0;
    }
    // The pseudo-header: addresses, length, protocol.
    let mut sum = match (ends.source.ip(), ends.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            add_sum(add_sum(0, &source.octets()), &destination.octets())
        }
        (source, destination) => {
            add_sum(add_sum(0, &ipv6_octets(source)), &ipv6_octets(destination))
        }
    };
    sum = add_sum(sum, &((header.len() + payload.bytes.len()) as u32).to_be_bytes());
    sum = add_sum(sum, &[0, protocol]);
    finish_sum(add_sum(add_sum(sum, header), payload.bytes))
}

/// Adds bytes to a sum of 16-bit words. Only the last part of a sum may have an odd length.
///
/// Words of four bytes in this machine's byte order are added: a ones' complement sum is the same in either order, but
/// for its bytes, which [`finish_sum`] exchanges. Packets have at most 2¹⁴ such words, so 64 bits do not overflow.
fn add_sum(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let sum = words.iter().fold(sum, |sum, word| sum + u64::from(u32::from_ne_bytes(*word)));
    let mut last = [0; 4];
    put(&mut last, 0, rest);
    sum + u64::from(u32::from_ne_bytes(last))
}

/// Folds a sum to 16 bits and complements it.
fn finish_sum(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::from_be(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The checksum of RFC 1071, word by word.
    fn slow_checksum(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    fn ends(source: &str, destination: &str) -> PacketEnds {
        PacketEnds { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    fn bytes_of(packet: &Packet<'_>) -> Vec<u8> {
        [packet.headers(), packet.payload()].concat()
    }

    #[test]
    fn k06_a_udp_packet_over_ipv4_is_these_bytes() {
        let packet = Packet::udp(ends("192.0.2.1:53", "192.0.2.2:1024"), 7, Payload::new(b"abc"));
        let expected = [
            0x45, 0, 0, 31, 0, 7, 0x40, 0, 64, 17, 0xb6, 0xc3, 192, 0, 2, 1, 192, 0, 2,
            2, // IP
            0, 53, 4, 0, 0, 11, 0xb3, 0x3c, // UDP
            b'a', b'b', b'c',
        ];
        assert_eq!(bytes_of(&packet), expected);
        assert_eq!(packet.whole_len(), expected.len());
    }

    #[test]
    fn k06_a_syn_over_ipv6_has_options() {
        let fields = TcpFields { flags: SYN, sequence: 5, acknowledged: 0, ip_id: 0 };
        let packet =
            Packet::tcp(ends("[2001:db8::1]:9", "[2001:db8::2]:80"), fields, Payload::EMPTY);
        let bytes = bytes_of(&packet);
        assert_eq!((bytes.len(), bytes[0], bytes[5], bytes[6]), (68, 0x60, 28, 6));
        assert_eq!(bytes[40..52], [0, 9, 0, 80, 0, 0, 0, 5, 0, 0, 0, 0]);
        assert_eq!(bytes[52..54], [7 << 4, SYN]);
        assert_eq!(bytes[60..], [2, 4, 0xff, 0xc3, 1, 3, 3, 8]);
    }

    #[test]
    fn k06_an_incomplete_payload_has_its_whole_length_and_no_checksum() {
        let payload = Payload { bytes: b"abc", whole: 1000 };
        let packet = Packet::udp(ends("192.0.2.1:53", "192.0.2.2:1024"), 0, payload);
        assert_eq!(packet.headers()[2..4], 1028u16.to_be_bytes());
        assert_eq!(packet.headers()[24..28], [0x03, 0xf0, 0, 0]);
        assert_eq!((packet.whole_len(), packet.payload()), (1028, &b"abc"[..]));
    }

    #[test]
    fn k06_the_longest_payloads_fit() {
        let long = vec![7; MAX_TCP_PAYLOAD.max(MAX_UDP_PAYLOAD)];
        for (source, destination) in [("192.0.2.1:1", "192.0.2.2:2"), ("[::1]:1", "[::2]:2")] {
            let ends = ends(source, destination);
            let fields = TcpFields { flags: ACK, sequence: 0, acknowledged: 0, ip_id: 0 };
            let tcp = Packet::tcp(ends, fields, Payload::new(&long[..MAX_TCP_PAYLOAD]));
            let udp = Packet::udp(ends, 0, Payload::new(&long[..MAX_UDP_PAYLOAD]));
            assert!(tcp.whole_len() <= 65_535);
            assert!(udp.whole_len() <= if ends.source.is_ipv4() { 65_535 } else { 65_535 + 40 });
        }
    }

    proptest! {
        /// A packet with its checksum in place sums up to zero, by the slow sum.
        #[test]
        fn k06_checksums_agree_with_a_slow_reference(
            payload in prop::collection::vec(any::<u8>(), 0..2000),
            addresses in any::<([u8; 16], [u8; 16], bool)>(),
            ports in any::<(u16, u16)>(),
            fields in any::<(u8, u32, u32, u16)>(),
        ) {
            let (source, destination, is_v4) = addresses;
            let ip = |octets: [u8; 16]| match is_v4 {
                true => IpAddr::from([octets[0], octets[1], octets[2], octets[3]]),
                false => IpAddr::from(octets),
            };
            let ends = PacketEnds {
                source: SocketAddr::new(ip(source), ports.0),
                destination: SocketAddr::new(ip(destination), ports.1),
            };
            let (flags, sequence, acknowledged, ip_id) = fields;
            let fields = TcpFields { flags, sequence, acknowledged, ip_id };
            let packets = [
                (6, Packet::tcp(ends, fields, Payload::new(&payload))),
                (17, Packet::udp(ends, ip_id, Payload::new(&payload))),
            ];
            for (protocol, packet) in packets {
                let bytes = bytes_of(&packet);
                let (ip_len, addresses) = if is_v4 { (20, 12..20) } else { (40, 8..40) };
                if is_v4 {
                    prop_assert_eq!(slow_checksum(&bytes[..20]), 0);
                }
                let length = (bytes.len() - ip_len) as u32;
                let mut summed = bytes[addresses].to_vec();
                summed.extend(length.to_be_bytes());
                summed.extend([0, protocol]);
                summed.extend(&bytes[ip_len..]);
                prop_assert_eq!(slow_checksum(&summed), 0);
            }
        }
    }
}
