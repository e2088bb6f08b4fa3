//! Decoding of a body in steps of bounded work, within limits of size, ratio and memory.

use std::fmt;

use bytes::{Buf, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::coding_layer::CodingLayer;
use super::limits::DecodeLimits;
use super::unsupported_coding::UnsupportedCoding;
use crate::content::content_coding::ContentCoding;
use crate::content::decode_error::ContentDecodeError;

/// Bytes that one call of [`ContentDecoder::decode`] takes in at most, and bytes that each layer writes at most in it.
pub const DECODE_STEP: usize = 16 * 1024;

/// A decoder of one body, which knows no I/O.
///
/// ```
/// use bytes::BytesMut;
/// use waterwheel_http::{ContentCoding, ContentDecoder, DecodeLimits, DecodeStatus};
///
/// # let mut encoder = waterwheel_http::ContentEncoder::new(ContentCoding::Gzip, &Default::default(), None)?;
/// # let mut body = BytesMut::new();
/// # encoder.encode(&mut &b"message"[..], &mut body)?;
/// # encoder.finish(&mut body)?;
/// let mut input = &body[..]; // "message" in gzip
/// let mut decoder = ContentDecoder::new(&[ContentCoding::Gzip], DecodeLimits::default())?;
/// let mut out = BytesMut::new();
/// while decoder.decode(&mut input, &mut out)? == DecodeStatus::HasMore {
///     // Hand on what is in `out` before the next step, or let it grow to the limit.
/// }
/// decoder.finish()?; // The body has ended: an error if its stream has not.
/// assert_eq!(out, "message");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Gzip members and zstd frames that follow each other are joined, as their RFCs say; all else behind the end is an
/// error, and so is an empty body.
///
/// # Memory
/// Gzip and deflate: 47 KiB. Brotli: a ring buffer that grows with the decoded bytes up to the window, at most 16 MiB and
/// for a moment 1.5 times that, and 40 KiB of tables, which a stream that uses all trees of the format can grow to about
/// 3 MiB. Zstd: 95 KiB, and once a frame has begun its window (or its content, if that is declared and smaller) plus
/// 384 KiB: at most 8.5 MiB, by malloc, of which the kernel gives what is written. A peer can ask for all of that with a
/// few bytes, so lower [`DecodeLimits::window_log`] where many peers are served: 22 reads what servers and browsers usually
/// send. Two layers cost the sum, and 16 KiB in between.
pub struct ContentDecoder {
    /// In the order of decoding: the coding that was applied last comes first. Empty for `identity`.
    layers: Vec<CodingLayer>,
    /// Output of the first layer that the second has not taken yet.
    between: BytesMut,
    limits: DecodeLimits,
    /// Bytes taken in so far.
    encoded: u64,
    /// The first error, which every later call repeats: the libraries do not promise anything behind one.
    failure: Option<ContentDecodeError>,
}

/// The outcome of a step of [`ContentDecoder::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum DecodeStatus {
    /// All input is taken, and all that can be decoded from it was written.
    NeedsInput,
    /// Input is left, or output is held back: the next call continues.
    HasMore,
}

impl ContentDecoder {
    /// Returns a decoder of codings in the order in which they were applied, as Content-Encoding lists them. Without any,
    /// bytes are only counted.
    pub fn new(codings: &[ContentCoding], limits: DecodeLimits) -> Result<Self, UnsupportedCoding> {
        if codings.len() > DecodeLimits::MAX_LAYERS {
            return Err(UnsupportedCoding::TooManyLayers { limit: DecodeLimits::MAX_LAYERS });
        }
        let layers = codings
            .iter()
            .rev()
            .map(|coding| CodingLayer::new(*coding, &limits))
            .collect::<Result<_, _>>()?;
        Ok(Self { layers, between: BytesMut::new(), limits, encoded: 0, failure: None })
    }

    /// Returns a decoder for the codings that Content-Encoding lists, `None` if there is none but `identity`.
    pub fn for_headers(
        headers: &HeaderMap,
        limits: DecodeLimits,
    ) -> Result<Option<Self>, UnsupportedCoding> {
        let codings = listed_codings(headers)?;
        if codings.is_empty() { Ok(None) } else { Self::new(&codings, limits).map(Some) }
    }

    /// Takes at most [`DECODE_STEP`] bytes off the front of `input`, and appends at most as many to `out`. The bytes in
    /// `out` are within the limits, also after an error.
    pub fn decode(
        &mut self,
        input: &mut &[u8],
        out: &mut BytesMut,
    ) -> Result<DecodeStatus, ContentDecodeError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let result = self.step(input, out);
        self.failure = result.err();
        result
    }

    /// Checks that the body may end here; to be called after [`decode`](Self::decode) has taken all and returned
    /// [`DecodeStatus::NeedsInput`].
    pub fn finish(&self) -> Result<(), ContentDecodeError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        match self.layers.iter().find(|layer| !layer.is_complete()) {
            Some(layer) => Err(ContentDecodeError::Truncated { coding: layer.coding() }),
            None => Ok(()),
        }
    }

    /// Returns the bytes of the body taken in so far.
    pub fn encoded(&self) -> u64 {
        self.encoded
    }

    /// Returns the bytes decoded so far, by all layers.
    pub fn decoded(&self) -> u64 {
        self.layers.last().map_or(self.encoded, CodingLayer::written)
    }

    fn step(
        &mut self,
        input: &mut &[u8],
        out: &mut BytesMut,
    ) -> Result<DecodeStatus, ContentDecodeError> {
        let limits = self.limits;
        let offered = &input[..input.len().min(DECODE_STEP)];
        let taken = match &mut self.layers[..] {
            [] => {
                let encoded = self.encoded + offered.len() as u64;
                limits.check(encoded, encoded)?;
                out.extend_from_slice(offered);
                offered.len()
            }
            [only] => only.step(offered, out, &limits, None)?,
            [first, second, ..] => {
                // Nothing new while the second layer has not used up what it has.
                let taken = if self.between.is_empty() {
                    first.step(offered, &mut self.between, &limits, None)?
                } else {
                    0
                };
                let encoded = Some(self.encoded + taken as u64);
                let used = second.step(&self.between, out, &limits, encoded)?;
                self.between.advance(used);
                taken
            }
        };
        self.encoded += taken as u64;
        *input = &input[taken..];
        let drained = self.between.is_empty() && self.layers.iter().all(CodingLayer::is_drained);
        if input.is_empty() && drained {
            return Ok(DecodeStatus::NeedsInput);
        }
        Ok(DecodeStatus::HasMore)
    }
}

impl fmt::Debug for ContentDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codings = self.layers.iter().map(CodingLayer::coding).collect::<Vec<_>>();
        f.debug_struct("ContentDecoder")
            .field("codings", &codings)
            .field("encoded", &self.encoded)
            .finish_non_exhaustive()
    }
}

/// Returns the codings of Content-Encoding in the order in which they were applied, without `identity`.
fn listed_codings(headers: &HeaderMap) -> Result<Vec<ContentCoding>, UnsupportedCoding> {
    let mut codings = Vec::new();
    for line in headers.get_all(CONTENT_ENCODING) {
        let line = line.to_str().map_err(|_| UnsupportedCoding::Malformed)?;
        for name in line.split(',').map(|name| name.trim_matches([' ', '\t'])) {
            if name.is_empty() || name.eq_ignore_ascii_case("identity") {
                continue;
            }
            if codings.len() == DecodeLimits::MAX_LAYERS {
                return Err(UnsupportedCoding::TooManyLayers { limit: DecodeLimits::MAX_LAYERS });
            }
            match ContentCoding::from_name(name) {
                Some(coding) => codings.push(coding),
                None => return Err(UnsupportedCoding::unknown(name)),
            }
        }
    }
    Ok(codings)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::unsupported_coding::NAME_SHOWN;
    use super::*;

    fn codings(lines: &[&'static str]) -> Result<Vec<ContentCoding>, UnsupportedCoding> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(line));
        }
        listed_codings(&headers)
    }

    #[test]
    fn h09_content_encoding_lists_at_most_two_known_codings() {
        use ContentCoding::{Brotli, Deflate, Gzip, Zstd};
        assert_eq!(codings(&[]), Ok(vec![]));
        assert_eq!(codings(&["", " , identity, IDENTITY"]), Ok(vec![]));
        assert_eq!(codings(&["gzip"]), Ok(vec![Gzip]));
        assert_eq!(codings(&["X-GZIP,\tBr"]), Ok(vec![Gzip, Brotli]));
        assert_eq!(codings(&["identity, deflate", "zstd"]), Ok(vec![Deflate, Zstd]));
        let too_many = UnsupportedCoding::TooManyLayers { limit: 2 };
        assert_eq!(codings(&["gzip, gzip, gzip"]), Err(too_many.clone()));
        assert_eq!(codings(&["gzip, gzip", "br"]), Err(too_many.clone()));
        let three = ContentDecoder::new(&[Gzip, Gzip, Gzip], DecodeLimits::default());
        assert_eq!(three.unwrap_err(), too_many);
        for name in ["compress", "gzip;q=1", "gzip br", "*"] {
            let unknown = UnsupportedCoding::Unknown { name: name.into() };
            assert_eq!(codings(&[name]), Err(unknown));
        }
    }

    #[test]
    fn h09_the_error_of_an_unknown_coding_repeats_little_of_a_long_name() {
        let long = HeaderValue::from_str(&"x".repeat(10_000)).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, long);
        let error = ContentDecoder::for_headers(&headers, DecodeLimits::default()).unwrap_err();
        assert_eq!(error, UnsupportedCoding::Unknown { name: "x".repeat(NAME_SHOWN) });
        headers.insert(CONTENT_ENCODING, HeaderValue::from_bytes(b"gz\xffp").unwrap());
        let error = ContentDecoder::for_headers(&headers, DecodeLimits::default()).unwrap_err();
        assert_eq!(error, UnsupportedCoding::Malformed);
    }

    #[test]
    fn h09_without_a_coding_the_size_is_limited_all_the_same() {
        let limits = DecodeLimits { size: 5, ..DecodeLimits::default() };
        let mut decoder = ContentDecoder::new(&[], limits).unwrap();
        let mut out = BytesMut::new();
        assert_eq!(decoder.decode(&mut &b"12345"[..], &mut out), Ok(DecodeStatus::NeedsInput));
        assert_eq!(decoder.finish(), Ok(()));
        let error = decoder.decode(&mut &b"6"[..], &mut out).unwrap_err();
        assert_eq!(error, ContentDecodeError::TooLarge { limit: 5 });
        assert_eq!(decoder.finish(), Err(error));
        assert_eq!(out, "12345");
    }
}
