//! Text: lines, UTF-8, and JSON values in a byte stream (C15, K02).

pub(crate) mod conversion;
pub(crate) mod json;
pub(crate) mod line_decoder;
pub(crate) mod line_encoder;
pub(crate) mod utf8;
