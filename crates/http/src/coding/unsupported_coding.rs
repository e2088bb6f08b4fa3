//! The error of a Content-Encoding that cannot be decoded.

use crate::content::decode_error::ContentDecodeError;

/// Characters of an unknown coding's name that its error repeats.
pub(super) const NAME_SHOWN: usize = 32;

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
