//! Cases about the body of a request: where it ends, and what comes of it.

pub(crate) mod bodies;
pub(crate) mod chunks;
pub(crate) mod content_length;
pub(crate) mod smuggling;
pub(crate) mod trailers;
pub(crate) mod transfer_encoding;
