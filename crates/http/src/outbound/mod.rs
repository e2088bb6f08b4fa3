//! What the server's handler and the codecs share to write messages: the bytes of one call, and the date.

pub(crate) mod output;
pub(crate) mod standing_fields;
