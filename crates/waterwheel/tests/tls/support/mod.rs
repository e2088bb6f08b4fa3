//! Support for every peer: certificates, channels that report what they see, and the programs at the other end.

pub(crate) mod certificates;
pub(crate) mod endpoints;
pub(crate) mod peer_program;

use waterwheel::tls::rustls::ProtocolVersion;

/// The name in the certificates of servers.
pub(crate) const NAME: &str = "wheel.example";

/// Both versions of the protocol.
pub(crate) const VERSIONS: [ProtocolVersion; 2] =
    [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3];

/// Returns `len` bytes that neither compress nor repeat in the size of a record: a loss or a swap shows.
pub(crate) fn unequal_bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}

/// Returns `len` bytes of text in lines of 64 bytes, none like the one before.
pub(crate) fn unequal_lines(len: usize) -> Vec<u8> {
    let mut bytes = unequal_bytes(len);
    for byte in &mut bytes {
        *byte = b'A' + (*byte & 15);
    }
    for line in bytes.chunks_mut(64) {
        *line.last_mut().unwrap() = b'\n';
    }
    bytes
}
