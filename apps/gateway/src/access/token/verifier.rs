//! The way of a token: form, key, signature, claims.

use super::claims::{ClaimRules, Claims};
use super::compact::CompactToken;
use super::error::TokenError;
use crate::access::keys::key_set::KeySet;
use crate::access::strict_json::read_object;

/// The default of the limit of a token in bytes: one with 64 filters of 60 bytes in both lists fits.
pub const DEFAULT_MAX_TOKEN_BYTES: usize = 12 * 1024;

/// Verifies tokens.
#[derive(Clone, Debug)]
pub struct TokenVerifier {
    keys: KeySet,
    rules: ClaimRules,
    max_bytes: usize,
}

impl TokenVerifier {
    /// Creates a verifier for tokens of at most so many bytes.
    #[must_use]
    pub fn new(keys: KeySet, rules: ClaimRules, max_bytes: usize) -> Self {
        Self { keys, rules, max_bytes }
    }

    /// Returns the keys.
    #[must_use]
    pub fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// Returns the limits and rules of claims.
    #[must_use]
    pub fn rules(&self) -> &ClaimRules {
        &self.rules
    }

    /// Verifies a token. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The token is malformed, not signed by a key of the gateway, or its claims do not hold.
    pub fn verify(&self, token: &str, now: u64) -> Result<Claims, TokenError> {
        if token.len() > self.max_bytes {
            return Err(TokenError::TooLong { len: token.len(), limit: self.max_bytes });
        }
        let token = CompactToken::parse(token)?;
        let mut has_key = false;
        let is_signed = self
            .keys
            .candidates(token.algorithm, token.key_id.as_deref())
            .inspect(|_| has_key = true)
            .any(|key| key.is_signature_valid(token.signed, &token.signature));
        if !is_signed {
            return Err(if has_key { TokenError::Signature } else { TokenError::NoKey });
        }
        let payload = read_object(&token.payload()?).map_err(|_| TokenError::MalformedPayload)?;
        Claims::check(&payload, &self.rules, now)
    }
}
