//! RESP2 and RESP3, the protocols of Redis (K03).
//!
//! ```text
//!   client   Bytes ──► RespDecoder ──RespValue──► handler ──RespCommand──► RespEncoder ──► Bytes
//!   server   Bytes ──► RespCommandDecoder ──RespCommand──► handler ──RespValue──► RespEncoder ──► Bytes
//! ```
//!
//! 1. A message is decoded when it is there as a whole, and everything in it is a part of what was read. Until then
//!    the decoder remembers how far it has looked: no byte is looked at again, however small the pieces are.
//! 2. What a peer can make a decoder keep is limited by [`RespLimits`], checked against what is announced before it comes.
//! 3. Where the next message begins is not known behind an error: each ends the decoding.

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
