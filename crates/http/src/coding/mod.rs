//! Content codings of bodies (RFC 9110, section 8.4): encoders and decoders, without I/O; and the bodies that use
//! them. Negotiation is in `content`.
//!
//! Rules:
//! - A call does a bounded piece of work, and the caller loops: [`ENCODE_STEP`], [`DECODE_STEP`].
//! - Limits are checked before decoded bytes are handed out.
//! - `backend/` knows the libraries and their formats, and nothing above them.
//!
//! ```text
//!   answer:  Compression ─► AcceptEncoding, media_type ─► EncodedBody ─► ContentEncoder ──────────┐
//!   request: decompress ─► DecodedBody ─► ContentDecoder ─► CodingLayer (1 or 2), DecodeLimits ───┴─► backend/
//! ```

mod backend;
mod coding_layer;
mod coding_services;
mod compression;
mod decoded_body;
mod decoder;
mod encoded_body;
mod encoder;
mod encoder_options;
mod limits;
mod media_type;
mod step_budget;
mod unsupported_coding;

pub use coding_services::{CompressedService, DecompressedService, compressed, decompressed};
pub use compression::{Compression, CompressionBuilder, CompressionFacts};
pub use decoded_body::decompress;
pub use decoder::{ContentDecoder, DECODE_STEP, DecodeStatus};
pub use encoder::{ContentEncoder, ENCODE_STEP};
pub use encoder_options::{ContentEncodeError, EncoderOptions};
pub use limits::DecodeLimits;
pub use unsupported_coding::UnsupportedCoding;
