//! Errors of decoding a body.

use http::StatusCode;

use super::content_coding::ContentCoding;

/// The reason why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentDecodeError {
    /// The decoded body exceeds `DecodeLimits::size`. A server answers 413.
    #[error("the decoded body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The body expands more than `DecodeLimits::ratio` allows. A server answers 413.
    #[error("{decoded} bytes were decoded from {encoded}; at most {limit} for each are allowed")]
    Ratio {
        /// Decoded bytes so far.
        decoded: u64,
        /// Bytes received so far.
        encoded: u64,
        /// The largest number of decoded bytes for each byte received.
        limit: u64,
    },
    /// The stream asks for a larger window than `DecodeLimits::window_log` allows. A
    /// server answers 413.
    #[error("the {coding} body asks for a window of more than 2^{limit} bytes")]
    WindowTooLarge {
        /// The coding of the stream.
        coding: ContentCoding,
        /// The largest window, as a power of two.
        limit: u8,
    },
    /// The bytes are not of the coding's format, or a checksum differs. A server answers 400.
    #[error("the {coding} body is corrupt: {reason}")]
    Corrupt {
        /// The coding of the stream.
        coding: ContentCoding,
        /// The part that is wrong. Of zstd it may depend on how the bytes were cut.
        reason: &'static str,
    },
    /// The body ended before the coding's stream did. A server answers 400.
    #[error("the {coding} body ends before its end mark")]
    Truncated {
        /// The coding of the stream.
        coding: ContentCoding,
    },
    /// Bytes follow the end of the coding's stream. A server answers 400.
    #[error("the {coding} body goes on after its end mark")]
    TrailingBytes {
        /// The coding of the stream.
        coding: ContentCoding,
    },
    /// The library could not allocate its state.
    #[error("no memory for a {coding} decoder: {reason}")]
    Memory {
        /// The coding of the stream.
        coding: ContentCoding,
        /// The library's error.
        reason: &'static str,
    },
}

impl ContentDecodeError {
    /// Returns the status of the answer to a request with such a body: 413 if a limit is exceeded, 400 if the body is not
    /// what its Content-Encoding says, 503 if there is no memory.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } | Self::Ratio { .. } | Self::WindowTooLarge { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::Corrupt { .. } | Self::Truncated { .. } | Self::TrailingBytes { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::Memory { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}
