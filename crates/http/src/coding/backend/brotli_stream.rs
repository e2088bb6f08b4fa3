//! Brotli (RFC 7932), by the crate `brotli`, which is written in Rust.

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use bytes::BytesMut;

use super::{DecoderBackend, DecoderStep, EncoderBackend};
use crate::content::content_coding::ContentCoding;
use crate::content::decode_error::ContentDecodeError;

/// Input that the encoder collects before it compresses, as a power of two: 64 KiB, the least the library allows. The
/// call that fills a block compresses all of it.
const BLOCK_LOG: u32 = 16;

/// An encoder of one brotli stream.
pub(super) struct BrotliEncoder {
    state: BrotliEncoderStateStruct<StandardAlloc>,
}

impl BrotliEncoder {
    pub(super) fn new(quality: u32, window_log: u8) -> Self {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        for (parameter, value) in [
            (BrotliEncoderParameter::BROTLI_PARAM_QUALITY, quality),
            (BrotliEncoderParameter::BROTLI_PARAM_LGWIN, u32::from(window_log)),
            (BrotliEncoderParameter::BROTLI_PARAM_LGBLOCK, BLOCK_LOG),
        ] {
            state.set_parameter(parameter, value);
        }
        Self { state }
    }

    /// Takes in all of `input`, does what the operation asks for, and moves the output to `out`.
    fn run(
        &mut self,
        operation: BrotliEncoderOperation,
        input: &[u8],
        out: &mut BytesMut,
    ) -> Result<(), &'static str> {
        let (mut available_in, mut next_in) = (input.len(), 0);
        loop {
            // Without room for output the library keeps it, and gives it away by reference below: no copy in between.
            let (mut available_out, mut next_out) = (0, 0);
            let done = self.state.compress_stream(
                operation,
                &mut available_in,
                input,
                &mut next_in,
                &mut available_out,
                &mut [],
                &mut next_out,
                &mut None,
                &mut |_, _, _, _| (),
            );
            if !done {
                return Err("brotli refused an operation");
            }
            let wrote = self.state.has_more_output();
            while self.state.has_more_output() {
                let mut size = 0; // All of it.
                let output = self.state.take_output(&mut size);
                out.extend_from_slice(&output[..size]);
            }
            if available_in == 0 && !wrote {
                return Ok(());
            }
        }
    }
}

impl EncoderBackend for BrotliEncoder {
    fn encode(&mut self, input: &[u8], out: &mut BytesMut) -> Result<(), &'static str> {
        self.run(BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, input, out)
    }

    fn flush(&mut self, out: &mut BytesMut) -> Result<(), &'static str> {
        self.run(BrotliEncoderOperation::BROTLI_OPERATION_FLUSH, &[], out)
    }

    fn finish(mut self: Box<Self>, out: &mut BytesMut) -> Result<(), &'static str> {
        self.run(BrotliEncoderOperation::BROTLI_OPERATION_FINISH, &[], out)
    }
}

/// A decoder of one brotli stream.
pub(super) struct BrotliDecoder {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    window_log: u8,
    started: bool,
    complete: bool,
}

impl BrotliDecoder {
    pub(super) fn new(window_log: u8) -> Self {
        let alloc = StandardAlloc::default;
        // `new_strict` refuses the extension "large window".
        let state = BrotliState::new_strict(alloc(), alloc(), alloc());
        Self { state, window_log, started: false, complete: false }
    }
}

impl DecoderBackend for BrotliDecoder {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<DecoderStep, ContentDecodeError> {
        let coding = ContentCoding::Brotli;
        if self.complete {
            return Err(ContentDecodeError::TrailingBytes { coding });
        }
        if let (false, [first, ..]) = (self.started, input) {
            self.started = true;
            // The library has no such limit.
            if stream_window_log(*first) > self.window_log {
                return Err(ContentDecodeError::WindowTooLarge { coding, limit: self.window_log });
            }
        }
        let (mut available_in, mut consumed) = (input.len(), 0);
        let (mut available_out, mut written, mut total) = (out.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut consumed,
            input,
            &mut available_out,
            &mut written,
            out,
            &mut total,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultFailure => {
                return Err(ContentDecodeError::Corrupt { coding, reason: "invalid brotli data" });
            }
            BrotliResult::ResultSuccess => self.complete = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
        }
        Ok(DecoderStep { consumed, written })
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Returns the window that the first byte of a stream asks for (RFC 7932, section 9.1); 0 for the reserved pattern, which
/// the library refuses.
fn stream_window_log(first: u8) -> u8 {
    let (low, high) = ((first >> 1) & 7, (first >> 4) & 7);
    match (first & 1, low, high) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, 1) => 0,
        (_, 0, _) => 8 + high,
        (_, low, _) => 17 + low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h09_the_window_of_a_brotli_stream_is_read_from_its_first_byte() {
        for window_log in 10..=24 {
            let mut out = BytesMut::new();
            let mut encoder = BrotliEncoder::new(5, window_log);
            encoder.encode(b"text", &mut out).unwrap();
            Box::new(encoder).finish(&mut out).unwrap();
            assert_eq!(stream_window_log(out[0]), window_log);
        }
    }
}
