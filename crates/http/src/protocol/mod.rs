//! HTTP/1.1 as state machines over bytes: no channel, clock or executor.
//!
//! ```text
//!   bytes ──► RequestDecoder  ──► head, data …, end            the head decides the framing of the body
//!   bytes ──► ResponseDecoder ──► interim heads, head, data …, end
//!   head  ──► encode_request_head, encode_response_head ──► bytes
//!   data  ──► encode_chunk_start … encode_body_end      ──► bytes
//! ```
//!
//! Every message has one reading: what could be read in two ways is an error (RFC 9112, section 11.2). The rules are
//! in `docs/HTTP.md`, a row each; here they are in `fields.rs` (field lines), `request_decoder.rs` (the request line),
//! `target.rs` and `authority.rs` (its target and the Host field), `framing.rs` (which body a message has) and
//! `body_decoder.rs` (chunks and trailers).

pub(crate) mod authority;
pub(crate) mod body_decoder;
pub(crate) mod encoder;
pub(crate) mod error;
pub(crate) mod fields;
pub(crate) mod framing;
pub(crate) mod limits;
pub(crate) mod lines;
pub(crate) mod request_decoder;
pub(crate) mod request_head;
pub(crate) mod response_decoder;
pub(crate) mod scan;
pub(crate) mod target;
