//! Errors of decoding a body.

use super::content_coding::ContentCoding;

/// Characters of an unknown coding's name that its error repeats.
pub(super) const NAME_SHOWN: usize = 32;

/// The reason why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentDecodeError {
    /// The decoded body exceeds [`DecodeLimits::size`](super::DecodeLimits::size). A server answers 413.
    #[error("the decoded body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The body expands more than [`DecodeLimits::ratio`](super::DecodeLimits::ratio) allows. A server answers 413.
    #[error("{decoded} bytes were decoded from {encoded}; at most {limit} for each are allowed")]
    Ratio {
        /// Decoded bytes so far.
        decoded: u64,
        /// Bytes received so far.
        encoded: u64,
        /// The largest number of decoded bytes for each byte received.
        limit: u64,
    },
    /// The stream asks for a larger window than [`DecodeLimits::window_log`](super::DecodeLimits::window_log) allows. A
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

/// The reason why a Content-Encoding is not decoded. A server answers 415 with the codings it knows in Accept-Encoding
/// (RFC 9110, section 15.5.16).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedCoding {
    /// The coding is unknown, or its feature is not compiled in.
    #[error("the content coding {name:?} is not supported")]
    Unknown {
        /// The name in the field, at most 32 characters of it.
        name: String,
    },
    /// More codings are applied than [`DecodeLimits::MAX_LAYERS`](super::DecodeLimits::MAX_LAYERS).
    #[error("more than {limit} content codings are applied")]
    TooManyLayers {
        /// The largest number of codings.
        limit: usize,
    },
    /// The field's value is not a list of tokens.
    #[error("the field Content-Encoding is not a list of names")]
    Malformed,
    /// The library could not allocate its state, see [`ContentDecodeError::Memory`].
    #[error(transparent)]
    Memory(#[from] ContentDecodeError),
}

impl UnsupportedCoding {
    pub(super) fn unknown(name: &str) -> Self {
        Self::Unknown { name: name.chars().take(NAME_SHOWN).collect() }
    }
}
