//! The handlers of a connection: messages in and out, keep-alive, close.
//!
//! ```text
//!            websocket/decoder                      websocket/encoder
//!   bytes ──► DecodeSlot ── messages ──► WebSocketHandler, or the handlers after these two
//!                 │  pongs, closes, sends of the WebSocketHandler
//!   bytes ◄───────┴───────────────────── EncodeSlot ◄── messages of the handlers after, of other threads, of groups
//! ```
//!
//! | file | |
//! |---|---|
//! | `options.rs`, `agreement.rs` | what a user sets, and what the handshake has agreed on |
//! | `handler.rs`, `context.rs` | what a user writes: a handler of messages, and what it sends with |
//! | `socket_state.rs` | what both slots share: the encoder, and the closing handshake |
//! | `send_buffer.rs` | the frames of a round of reads, which become one part of the output |
//! | `decode_slot.rs`, `encode_slot.rs` | the handlers of the pipeline |
//! | `time_limits.rs` | keep-alive, and the limits of the closing handshake |
//! | `install.rs` | how they are added to a pipeline |
//!
//! Rules:
//! 1. *Order.* Messages are handed on, and pings answered, in the order in which they came.
//! 2. *Close.* A close of the channel begins the closing handshake; the channel is closed when the peer has answered, or
//!    its time is over. The server ends its output first, and waits for the end of the client's.
//! 3. *Failure.* A violation is told to the peer, flushed, before the output is ended. What the peer still sends is
//!    dropped until it has read that, or its time is over: a close with unread data would reset the connection.
//! 4. *Back-pressure.* A server decodes nothing while its channel is not writable.
//! 5. *Nothing is borrowed* while a handler is called.

pub(crate) mod agreement;
pub(crate) mod context;
mod decode_slot;
mod encode_slot;
pub(crate) mod handler;
pub(crate) mod install;
pub(crate) mod options;
mod send_buffer;
mod socket_state;
mod time_limits;
