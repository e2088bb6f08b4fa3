//! Why a token is refused.

use thiserror::Error;

use crate::error_code::{ErrorCode, GatewayError};

/// Why a token is refused, for the operator. Quotes nothing of the token but names that were checked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// More bytes than the limit.
    #[error("the token has {len} bytes; the limit is {limit}")]
    TooLong {
        /// The length.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// Not three parts of base64url with dots between them.
    #[error("the token is not three parts of base64url with dots between them")]
    NotCompact,
    /// The header is not an object of JSON.
    #[error("the header of the token is not an object of JSON without duplicate members")]
    MalformedHeader,
    /// A member of the header that is malformed or not supported.
    #[error("the member `{0}` of the token's header is missing, malformed or not supported")]
    Header(&'static str),
    /// No key of this algorithm and `kid`.
    #[error("there is no key for the algorithm and the kid of the token")]
    NoKey,
    /// No key has made the signature.
    #[error("the signature of the token is not valid")]
    Signature,
    /// The payload is not an object of JSON.
    #[error("the payload of the token is not an object of JSON without duplicate members")]
    MalformedPayload,
    /// A claim that is missing, malformed or over a limit.
    #[error("the claim `{0}` of the token is missing, malformed or over a limit")]
    Claim(&'static str),
    /// A claim with another value than configured.
    #[error("the claim `{0}` of the token has another value than configured")]
    OtherValue(&'static str),
    /// The token is not valid yet: `nbf` or `iat` is in the future.
    #[error("the claim `{0}` of the token is in the future; are the clocks right?")]
    NotYetValid(&'static str),
    /// The token has expired.
    #[error("the token expired {seconds} seconds ago")]
    Expired {
        /// For how long.
        seconds: u64,
    },
}

impl TokenError {
    /// Returns the error for the client, which tells no more than that the token is invalid, or has expired. Only a token
    /// with a valid signature can have expired.
    #[must_use]
    pub fn for_client(&self) -> GatewayError {
        match self {
            Self::Expired { .. } => {
                GatewayError::new(ErrorCode::TokenExpired, "the token has expired; get a new one")
            }
            _ => GatewayError::new(ErrorCode::TokenInvalid, "the token is not valid"),
        }
    }
}
