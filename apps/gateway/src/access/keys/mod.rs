//! The keys that tokens are verified with.
//!
//! ```text
//!   secret ─────────────┐
//!   PEM file (public) ──┼─► TokenKey: id, algorithm, key ──► KeySet
//!   JWKS file ──────────┘
//! ```
//!
//! Each key has one algorithm, fixed when it is read: HS256 for secrets, RS256 for RSA, ES256 for P-256, EdDSA for
//! Ed25519. A public key is never the secret of an HMAC.

pub mod jwks;
pub mod key_set;
pub mod pem;
pub mod token_key;
