//! RESP2 and RESP3, the protocols of Redis (K03).
//!
//! ```text
//!   client   Bytes ──► RespDecoder ──RespValue──► handler ──RespCommand──► RespEncoder ──► Bytes
//!   server   Bytes ──► RespCommandDecoder ──RespCommand──► handler ──RespValue──► RespEncoder ──► Bytes
//! ```
//!
//! 1. A message is decoded when it is complete, and its parts are slices of the read buffer. Until then the decoder
//!    remembers how far it has scanned: no byte is scanned twice, however small the reads are.
//! 2. [`RespLimits`] bounds what a peer can make a decoder hold; announced lengths are checked before the bytes arrive.
//! 3. Every error ends the decoding, because the start of the next message is unknown.

mod command;
mod command_decoder;
mod decoder;
mod encoder;
mod error;
mod inline;
mod limits;
mod scan;
mod token;
mod value;

pub use self::command::RespCommand;
pub use self::command_decoder::RespCommandDecoder;
pub use self::decoder::RespDecoder;
pub use self::encoder::{RespEncoder, RespVersion};
pub use self::error::RespError;
pub use self::limits::RespLimits;
pub use self::value::RespValue;
