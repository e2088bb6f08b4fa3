//! Errors of PROXY headers.

use crate::quoted::Quoted;

/// A connection does not begin with a PROXY header, or a header cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The first bytes are none of a header.
    #[error("PROXY: a connection begins with {found}, which begins no header")]
    NoHeader {
        /// The bytes up to the first that is wrong.
        found: Quoted,
    },
    /// A part of a header is not what it should be.
    #[error("PROXY: {found} is no {expected}")]
    Malformed {
        /// The syntax that was expected.
        expected: &'static str,
        /// The beginning of what is there.
        found: Quoted,
    },
    /// A header is longer than it may be.
    #[error("PROXY: a header has more than {limit} bytes, which it may have")]
    TooLong {
        /// How many bytes it may have.
        limit: usize,
    },
    /// The checksum in a header is not that of its bytes.
    #[error("PROXY: the checksum of a header is {expected:#010x}, and it says {found:#010x}")]
    Checksum {
        /// The checksum of its bytes.
        expected: u32,
        /// The one in it.
        found: u32,
    },
    /// The stream ended in the middle of a header.
    #[error("PROXY: the stream ended in the middle of a header, after {unread} bytes of it")]
    CutOff {
        /// How many bytes of it came.
        unread: usize,
    },
    /// The peer is not trusted to send a PROXY header.
    #[error("PROXY: {peer} is not trusted to say whom it speaks for")]
    Untrusted {
        /// Its address.
        peer: String,
    },
    /// A header cannot be written in this version.
    #[error("PROXY: version {version} has no {what}")]
    NotWritten {
        /// Which version.
        version: u8,
        /// The feature that this version lacks.
        what: &'static str,
    },
}
