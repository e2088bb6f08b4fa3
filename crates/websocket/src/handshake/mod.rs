//! The opening handshake as functions of heads: no channel, no clock.
//!
//! ```text
//!   client                                                                server
//!   Sec-WebSocket-Key, -Version, -Protocol, -Extensions ──────────────► OpeningRequest::check ─► HandshakeError: 4xx
//!   ResponseViolation ◄─ check_response ◄── 101, Sec-WebSocket-Accept, -Protocol, -Extensions ◄── put_fields
//! ```
//!
//! | file | |
//! |---|---|
//! | `key.rs` | the key of a client, and the proof that a server has read it |
//! | `field_list.rs` | lists in the values of fields: subprotocols, extensions with parameters |
//! | `opening_request.rs`, `handshake_error.rs` | the server's side: the check of a request, and the answer to a wrong one |
//! | `opening_response.rs` | the client's side: the check of a response |

pub(crate) mod field_list;
pub(crate) mod handshake_error;
pub(crate) mod key;
pub(crate) mod opening_request;
pub(crate) mod opening_response;
