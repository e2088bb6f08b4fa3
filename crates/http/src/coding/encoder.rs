//! Encoding of a body in steps of bounded work.

use std::fmt;

use bytes::BytesMut;

use super::backend::{self, EncoderBackend};
use super::encoder_options::{ContentEncodeError, EncoderOptions};
use crate::content::content_coding::ContentCoding;

/// Bytes that one call of [`ContentEncoder::encode`] takes in at most: see [`ContentEncoder`] for their price.
pub const ENCODE_STEP: usize = 16 * 1024;

/// An encoder of one body, which knows no I/O.
///
/// ```
/// use bytes::BytesMut;
/// use waterwheel_http::{ContentCoding, ContentEncoder, EncoderOptions};
///
/// let body = b"text ".repeat(10_000);
/// let mut encoder = ContentEncoder::new(ContentCoding::Gzip, &EncoderOptions::default(), None)?;
/// let mut input = &body[..];
/// let mut out = BytesMut::new();
/// while !input.is_empty() {
///     encoder.encode(&mut input, &mut out)?; // A step; a loop may do other things before the next.
/// }
/// encoder.finish(&mut out)?;
/// assert!(out.len() < 1000);
/// # Ok::<(), waterwheel_http::ContentEncodeError>(())
/// ```
///
/// # Work
/// A call of [`encode`](Self::encode) takes 0.1 to 2 ms at the default levels: [`EncoderOptions`] has the figures. Between
/// two calls a loop can do other things: a body of 10 MB has 610 steps.
///
/// # Memory
/// Gzip: 372 KiB. Brotli at the defaults: 520 KiB for a stream of small events, up to 3.2 MiB for a large body. Zstd at the
/// defaults: 1.8 MiB for a body of unknown length and 0.8 MiB for one of 1 KiB, by malloc, of which the kernel gives what
/// is written. A stream of events that stays for hours keeps its encoder; gzip is the smallest.
pub struct ContentEncoder {
    coding: ContentCoding,
    backend: Box<dyn EncoderBackend>,
}

impl ContentEncoder {
    /// Returns an encoder. `length` is the length of the body, if known: a small body needs less memory.
    pub fn new(
        coding: ContentCoding,
        options: &EncoderOptions,
        length: Option<u64>,
    ) -> Result<Self, ContentEncodeError> {
        Ok(Self { coding, backend: backend::encoder(coding, options, length)? })
    }

    /// Returns the coding of the output.
    pub fn coding(&self) -> ContentCoding {
        self.coding
    }

    /// Takes at most [`ENCODE_STEP`] bytes off the front of `input` and appends output to `out`, possibly nothing: bytes
    /// are held back until a block is full or [`flush`](Self::flush) is called.
    pub fn encode(
        &mut self,
        input: &mut &[u8],
        out: &mut BytesMut,
    ) -> Result<(), ContentEncodeError> {
        let (step, rest) = input.split_at(input.len().min(ENCODE_STEP));
        *input = rest;
        self.backend.encode(step, out).map_err(|reason| self.error(reason))
    }

    /// Appends what is held back, so that the receiver can decode every byte taken in so far: an event of a stream leaves
    /// at once. Costs 5 bytes and some of the compression; a second flush without input in between may cost them again.
    pub fn flush(&mut self, out: &mut BytesMut) -> Result<(), ContentEncodeError> {
        self.backend.flush(out).map_err(|reason| self.error(reason))
    }

    /// Appends what is held back and the end of the stream, and frees the encoder's memory.
    pub fn finish(self, out: &mut BytesMut) -> Result<(), ContentEncodeError> {
        let coding = self.coding;
        self.backend.finish(out).map_err(|reason| ContentEncodeError::Library { coding, reason })
    }

    fn error(&self, reason: &'static str) -> ContentEncodeError {
        ContentEncodeError::Library { coding: self.coding, reason }
    }
}

impl fmt::Debug for ContentEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentEncoder").field("coding", &self.coding).finish_non_exhaustive()
    }
}
