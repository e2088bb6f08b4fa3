//! Frames and messages as state machines over bytes: no channel, no clock.
//!
//! ```text
//!   bytes in any pieces ──► MessageDecoder: frame head ─► unmask ─► inflate ─► UTF-8 check ─► message | ProtocolError
//!   message ──► MessageEncoder: deflate ─► frame head ─► mask ──► bytes
//! ```
//!
//! | file | |
//! |---|---|
//! | `message.rs`, `close.rs`, `close_handshake.rs`, `error.rs`, `limits.rs` | values |
//! | `frame_head.rs`, `mask.rs`, `utf8.rs` | parts of a frame: its head, its mask, the check of a text |
//! | `short_frame.rs`, `message_buffer.rs`, `decoder.rs` | reading |
//! | `encoder.rs`, `broadcast.rs` | writing, to one peer and to many |

pub(crate) mod broadcast;
pub(crate) mod close;
pub(crate) mod close_handshake;
pub(crate) mod decoder;
pub(crate) mod encoder;
pub(crate) mod error;
pub(crate) mod frame_head;
pub(crate) mod limits;
pub(crate) mod mask;
pub(crate) mod message;
pub(crate) mod message_buffer;
pub(crate) mod short_frame;
mod utf8;
