//! Tokens: JSON Web Tokens (RFC 7519) with one signature, in the compact form (RFC 7515).
//!
//! ```text
//!   header . payload . signature      each part is base64url without padding
//!      │         │          └─► is the signature that of a key with this algorithm and kid?   verifier
//!      │         └─ only then ─► exp, nbf, iat, iss, aud; sub, subscribe, publish, admin      claims
//!      └─► alg, kid; crit, cty and foreign types are refused                                 compact
//! ```

pub mod claims;
mod compact;
pub mod error;
pub mod verifier;
