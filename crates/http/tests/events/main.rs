//! Server-sent events (H10).

mod decoding;
mod streams;
