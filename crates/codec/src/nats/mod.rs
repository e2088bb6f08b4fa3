//! The client protocol of NATS (K05, G08).
//!
//! ```text
//!   client   Bytes ──► NatsDecoder::client ──NatsOperation──► handler ──NatsOperation──► NatsEncoder ──► Bytes
//!   server   Bytes ──► NatsDecoder::server ──NatsOperation──► handler ──NatsOperation──► NatsEncoder ──► Bytes
//! ```
//!
//! 1. An operation is decoded when it is complete, and its parts are slices of the read buffer. Until then the decoder
//!    remembers how far it has searched: no byte is searched twice, however small the reads are.
//! 2. [`NatsLimits`] bounds what a peer can make a decoder hold; announced sizes are checked before the bytes arrive.
//! 3. Every error ends the decoding, because the start of the next operation is unknown.
//!
//! The protocol is described in the section "Client Protocol" of the documentation of NATS, its headers in ADR-4.

mod control_line;
mod decoder;
mod encoder;
mod error;
mod headers;
mod limits;
mod operation;

pub use self::decoder::NatsDecoder;
pub use self::encoder::NatsEncoder;
pub use self::error::NatsError;
pub use self::headers::NatsHeaders;
pub use self::limits::NatsLimits;
pub use self::operation::{NatsMessage, NatsOperation};
