//! One coding of a body that is being decoded, and its limits.

use bytes::BytesMut;

use super::backend::{self, DecoderBackend, SCRATCH};
use super::decoder::DECODE_STEP;
use super::limits::DecodeLimits;
use super::unsupported_coding::UnsupportedCoding;
use crate::content::content_coding::ContentCoding;
use crate::content::decode_error::ContentDecodeError;

/// Bytes of input without output after which a step of deflate or brotli ends. Blocks without content take 10 bits, and
/// each costs the time of building its tables: 1.4 µs a byte, a hundred times that of other input.
const MAX_IDLE_INPUT: usize = 1024;

/// A layer of Content-Encoding.
pub(super) struct CodingLayer {
    coding: ContentCoding,
    backend: Box<dyn DecoderBackend>,
    /// Bytes taken in so far.
    consumed: u64,
    /// Bytes decoded so far.
    written: u64,
    /// The last call filled its room, so there may be more.
    holds_output: bool,
}

impl CodingLayer {
    pub(super) fn new(
        coding: ContentCoding,
        limits: &DecodeLimits,
    ) -> Result<Self, UnsupportedCoding> {
        let backend = backend::decoder(coding, limits)
            .ok_or_else(|| UnsupportedCoding::unknown(coding.name()))??;
        Ok(Self { coding, backend, consumed: 0, written: 0, holds_output: false })
    }

    pub(super) fn coding(&self) -> ContentCoding {
        self.coding
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// True if everything that can be decoded from the input so far was written.
    pub(super) fn is_drained(&self) -> bool {
        !self.holds_output
    }

    /// True if the layer's input may end here.
    pub(super) fn is_complete(&self) -> bool {
        self.backend.is_complete()
    }

    /// Decodes at most [`DECODE_STEP`] bytes to `out`, less of input that brings no output; returns how many bytes of `input` were taken. `encoded` is the
    /// number of bytes received for the body, `None` if they are this layer's own input.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        out: &mut BytesMut,
        limits: &DecodeLimits,
        encoded: Option<u64>,
    ) -> Result<usize, ContentDecodeError> {
        let mut scratch = [0; SCRATCH];
        let mut rest = input;
        let mut budget = DECODE_STEP;
        let piece = self.max_idle_input();
        let mut idle = piece;
        while budget > 0 && idle > 0 && (!rest.is_empty() || self.holds_output) {
            let room = budget.min(SCRATCH);
            let offered = &rest[..rest.len().min(piece)];
            let step = self.backend.decode(offered, &mut scratch[..room])?;
            if step.consumed == 0 && step.written == 0 && !self.holds_output {
                // The libraries do not do this; if one did, the caller would try forever.
                let reason = "the decoder makes no progress";
                return Err(ContentDecodeError::Corrupt { coding: self.coding, reason });
            }
            self.holds_output = step.written == room && !self.backend.is_complete();
            rest = &rest[step.consumed..];
            self.consumed += step.consumed as u64;
            self.written += step.written as u64;
            limits.check(self.written, encoded.unwrap_or(self.consumed))?;
            out.extend_from_slice(&scratch[..step.written]);
            budget -= step.written;
            idle = idle.saturating_sub(step.consumed.saturating_sub(step.written));
        }
        Ok(input.len() - rest.len())
    }

    /// Returns the bytes of input that may bring no output in a step. Zstd collects a block before it decodes it.
    fn max_idle_input(&self) -> usize {
        match self.coding {
            ContentCoding::Zstd => DECODE_STEP,
            _ => MAX_IDLE_INPUT,
        }
    }
}
