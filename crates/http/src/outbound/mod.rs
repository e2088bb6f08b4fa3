//! Tools to write messages, for the server's handler and the codecs: the bytes of one call, and the date.

pub(crate) mod output;
pub(crate) mod standing_fields;
