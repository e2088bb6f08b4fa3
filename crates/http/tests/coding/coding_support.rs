//! Bodies through encoders and decoders, whole or in pieces.

use bytes::BytesMut;
use waterwheel_http::{
    ContentCoding, ContentDecodeError, ContentDecoder, ContentEncoder, DecodeLimits, DecodeStatus,
    EncoderOptions,
};

/// The codings that can be sent.
pub(crate) const SENT: [ContentCoding; 3] =
    [ContentCoding::Gzip, ContentCoding::Brotli, ContentCoding::Zstd];

/// Returns an encoder with default options for a body of unknown length.
pub(crate) fn encoder(coding: ContentCoding) -> ContentEncoder {
    ContentEncoder::new(coding, &EncoderOptions::default(), None).unwrap()
}

/// Encodes a whole body.
pub(crate) fn encode(coding: ContentCoding, mut body: &[u8]) -> BytesMut {
    let (mut encoder, mut out) = (encoder(coding), BytesMut::new());
    while !body.is_empty() {
        encoder.encode(&mut body, &mut out).unwrap();
    }
    encoder.finish(&mut out).unwrap();
    out
}

/// Decodes a body that arrives in pieces, up to its end.
pub(crate) fn decode<'a>(
    codings: &[ContentCoding],
    limits: DecodeLimits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<BytesMut, ContentDecodeError> {
    let mut decoder = ContentDecoder::new(codings, limits).unwrap();
    let mut out = BytesMut::new();
    for mut piece in pieces {
        while decoder.decode(&mut piece, &mut out)? == DecodeStatus::HasMore {}
        assert!(piece.is_empty(), "a decoder that needs input has taken all it was given");
    }
    decoder.finish()?;
    assert_eq!(decoder.decoded(), out.len() as u64);
    Ok(out)
}

/// Blanks libzstd's reason of an error, which depends on how the bytes are cut; the rest of an outcome does not.
pub(crate) fn without_reason(
    outcome: Result<BytesMut, ContentDecodeError>,
) -> Result<BytesMut, ContentDecodeError> {
    outcome.map_err(|error| match error {
        ContentDecodeError::Corrupt { coding: coding @ ContentCoding::Zstd, .. } => {
            ContentDecodeError::Corrupt { coding, reason: "" }
        }
        other => other,
    })
}
