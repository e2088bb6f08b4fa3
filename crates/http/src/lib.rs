//! HTTP/1.1 on Waterwheel's loops: servers and clients.
#![forbid(unsafe_code)]

#[cfg(any(feature = "brotli", feature = "gzip", feature = "zstd"))]
mod coding;

#[cfg(any(feature = "brotli", feature = "gzip", feature = "zstd"))]
pub use coding::{
    AcceptEncoding, Compression, CompressionBuilder, ContentCoding, ContentDecodeError,
    ContentDecoder, ContentEncodeError, ContentEncoder, DECODE_STEP, DecodeLimits, DecodeStatus,
    ENCODE_STEP, EncoderOptions, MAX_ACCEPT_ENCODING, NegotiatedCoding, RequestFacts,
    UnsupportedCoding,
};
