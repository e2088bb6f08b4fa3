//! Content codings by name (RFC 9110, section 8.4), in every build: negotiation by Accept-Encoding, and the errors of
//! decoding. The codings themselves are in `coding`, behind the features of their libraries.

pub(crate) mod accept_encoding;
pub(crate) mod content_coding;
pub(crate) mod decode_error;
