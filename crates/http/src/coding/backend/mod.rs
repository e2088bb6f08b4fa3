//! The libraries behind the codings. Each file knows one format; none knows limits, layers or headers.

#[cfg(feature = "brotli")]
mod brotli_stream;
#[cfg(feature = "gzip")]
mod deflate_stream;
#[cfg(feature = "gzip")]
mod gzip_decoder;
#[cfg(feature = "gzip")]
mod gzip_encoder;
#[cfg(feature = "gzip")]
mod gzip_header;
#[cfg(feature = "zstd")]
mod zstd_stream;

use bytes::BytesMut;

use super::encoder_options::{ContentEncodeError, EncoderOptions};
use super::limits::DecodeLimits;
use crate::content::content_coding::ContentCoding;
use crate::content::decode_error::ContentDecodeError;

/// Bytes of output that a library is given room for at a time, on the stack: output is appended to the caller's buffer
/// by what was written, so that a short flush does not reserve much.
pub(super) const SCRATCH: usize = 4 * 1024;

/// An encoder of one format.
pub(super) trait EncoderBackend: Send {
    /// Takes in all of `input`, a step; output may be held back.
    fn encode(&mut self, input: &[u8], out: &mut BytesMut) -> Result<(), &'static str>;

    /// Writes out all that is held back, so that a decoder can give every byte taken in so far.
    fn flush(&mut self, out: &mut BytesMut) -> Result<(), &'static str>;

    /// Writes the end of the stream.
    fn finish(self: Box<Self>, out: &mut BytesMut) -> Result<(), &'static str>;
}

/// A decoder of one format.
pub(super) trait DecoderBackend: Send {
    /// Decodes from the front of `input` to the front of `out`. Called with an empty input only while output may be
    /// held back, because the last call filled `out`.
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<DecoderStep, ContentDecodeError>;

    /// True if the input may end here.
    fn is_complete(&self) -> bool;
}

/// The progress of one call of a [`DecoderBackend`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DecoderStep {
    pub(super) consumed: usize,
    pub(super) written: usize,
}

/// Makes an encoder; `length` is the body's length, if known.
pub(super) fn encoder(
    coding: ContentCoding,
    options: &EncoderOptions,
    length: Option<u64>,
) -> Result<Box<dyn EncoderBackend>, ContentEncodeError> {
    options.check()?;
    #[cfg_attr(
        not(any(feature = "brotli", feature = "zstd")),
        expect(unused_variables, reason = "the window of gzip is fixed")
    )]
    let window_log = options.window_log_for(length);
    match coding {
        #[cfg(feature = "gzip")]
        ContentCoding::Gzip => Ok(Box::new(gzip_encoder::GzipEncoder::new(options.gzip_level))),
        #[cfg(feature = "brotli")]
        ContentCoding::Brotli => {
            let quality = options.brotli_quality;
            Ok(Box::new(brotli_stream::BrotliEncoder::new(quality, window_log)))
        }
        #[cfg(feature = "zstd")]
        ContentCoding::Zstd => zstd_stream::ZstdEncoder::new(options.zstd_level, window_log)
            .map(|encoder| Box::new(encoder) as Box<dyn EncoderBackend>)
            .map_err(|reason| ContentEncodeError::Library { coding, reason }),
        _ => Err(ContentEncodeError::NotAvailable { coding }),
    }
}

/// Makes a decoder, `None` if the coding is not compiled in.
pub(super) fn decoder(
    coding: ContentCoding,
    limits: &DecodeLimits,
) -> Option<Result<Box<dyn DecoderBackend>, ContentDecodeError>> {
    #[cfg_attr(
        not(any(feature = "brotli", feature = "zstd")),
        expect(unused_variables, reason = "the window of gzip is fixed")
    )]
    let window_log = limits.window_log_of(coding);
    match coding {
        #[cfg(feature = "gzip")]
        ContentCoding::Gzip => Some(Ok(Box::new(gzip_decoder::GzipDecoder::new()))),
        #[cfg(feature = "gzip")]
        ContentCoding::Deflate => Some(Ok(Box::new(deflate_stream::ZlibDecoder::new()))),
        #[cfg(feature = "brotli")]
        ContentCoding::Brotli => Some(Ok(Box::new(brotli_stream::BrotliDecoder::new(window_log)))),
        #[cfg(feature = "zstd")]
        ContentCoding::Zstd => Some(
            zstd_stream::ZstdDecoder::new(window_log)
                .map(|decoder| Box::new(decoder) as Box<dyn DecoderBackend>),
        ),
        #[cfg(not(feature = "gzip"))]
        ContentCoding::Gzip | ContentCoding::Deflate => None,
        #[cfg(not(feature = "brotli"))]
        ContentCoding::Brotli => None,
        #[cfg(not(feature = "zstd"))]
        ContentCoding::Zstd => None,
    }
}
