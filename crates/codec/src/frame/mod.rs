//! Frames in a byte stream: by delimiter, by fixed length, by length field and by varint length (K01, K02).

pub(crate) mod delimiter_decoder;
pub(crate) mod delimiter_encoder;
pub(crate) mod delimiter_options;
pub(crate) mod error;
pub(crate) mod fixed_length;
pub(crate) mod length_field;
pub(crate) mod length_field_decoder;
pub(crate) mod length_field_prepender;
pub(crate) mod parts;
pub(crate) mod varint;
