//! Errors of PROXY headers.

use waterwheel_channel::Quoted;

/// A missing or invalid PROXY header, or a header that cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The first bytes are not a PROXY header.
    #[error("PROXY: the connection begins with {found} instead of a PROXY header")]
    NoHeader {
        /// The bytes up to the first wrong one.
        found: Quoted,
    },
    /// A field of the header is malformed.
    #[error("PROXY: expected {expected}, found {found}")]
    Malformed {
        /// The syntax that was expected.
        expected: &'static str,
        /// The first bytes found instead.
        found: Quoted,
    },
    /// The header exceeds the limit.
    #[error("PROXY: a header is longer than the limit of {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The checksum in the header does not match its bytes.
    #[error(
        "PROXY: checksum mismatch: the header says {found:#010x}, its bytes have {expected:#010x}"
    )]
    Checksum {
        /// The checksum of the bytes.
        expected: u32,
        /// The checksum in the header.
        found: u32,
    },
    /// The stream ended in the middle of a header.
    #[error("PROXY: the stream ended after {unread} bytes of an incomplete header")]
    CutOff {
        /// The number of bytes that arrived.
        unread: usize,
    },
    /// The peer is not trusted to send a PROXY header.
    #[error("PROXY: {peer} is not trusted to send PROXY headers")]
    Untrusted {
        /// The address of the peer.
        peer: String,
    },
    /// This version cannot express the header.
    #[error("PROXY: version {version} does not support {what}")]
    NotWritten {
        /// The PROXY version, 1 or 2.
        version: u8,
        /// The feature that this version lacks.
        what: &'static str,
    },
}
