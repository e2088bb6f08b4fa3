//! Permission to connect, subscribe and publish: tokens, the admin key, and limits of rate.
//!
//! ```text
//!   token or admin key ──► AccessControl::authenticate ──► ClientIdentity ──► may_subscribe, may_publish
//!   nothing ─────────────► AccessControl::anonymous ──────────┘
//!   publication ─────────► TokenBucket of the connection
//! ```
//!
//! # Rules
//!
//! 1. Without any key, a gateway is open, and listens on loopback addresses only: see [`config`].
//! 2. The algorithm belongs to the key. What a token says about its algorithm is compared with it, and never chosen from.
//! 3. A client is told that its token is invalid, not why. The reason is reported to the operator.
//! 4. Time is an argument: seconds since 1970 for tokens, the clock of the loops for rates.
//!
//! | to understand | read |
//! |---|---|
//! | how a client is authenticated | [`control`], [`identity`], [`credential`] |
//! | what the operator configures | [`config`], [`grants`], [`secret`] |
//! | how a token is verified | [`token`] |
//! | how keys are read | [`keys`] |
//! | limits of rate | [`rate`] |

pub mod config;
pub mod control;
pub mod credential;
pub mod grants;
pub mod identity;
pub mod keys;
pub mod rate;
pub mod secret;
pub mod strict_json;
pub mod token;
