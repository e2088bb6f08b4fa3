//! Zstd (RFC 8878), by libzstd, which is in C and allocates by malloc.

use bytes::BytesMut;
use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, SafeResult, get_error_name,
};

use super::{DecoderBackend, DecoderStep, EncoderBackend, SCRATCH};
use crate::content::content_coding::ContentCoding;
use crate::content::decode_error::ContentDecodeError;

/// libzstd's words for a window above the limit; it has no stable number for the error.
const WINDOW_TOO_LARGE: &str = "Frame requires too much memory for decoding";

/// An encoder of one zstd frame, with a checksum of its content.
pub(super) struct ZstdEncoder {
    context: CCtx<'static>,
}

impl ZstdEncoder {
    pub(super) fn new(level: i32, window_log: u8) -> Result<Self, &'static str> {
        let mut context = CCtx::try_create().ok_or("no memory for a context")?;
        for parameter in [
            CParameter::CompressionLevel(level),
            // Makes the tables smaller as well, which are most of the memory.
            CParameter::WindowLog(u32::from(window_log)),
            CParameter::ChecksumFlag(true),
        ] {
            context.set_parameter(parameter).map_err(get_error_name)?;
        }
        Ok(Self { context })
    }

    /// Repeats an operation, which returns how much it has still to write, until that is nothing.
    fn drain(
        &mut self,
        out: &mut BytesMut,
        operation: fn(&mut CCtx<'static>, &mut OutBuffer<'_, [u8]>) -> SafeResult,
    ) -> Result<(), &'static str> {
        let mut scratch = [0; SCRATCH];
        loop {
            let mut output = OutBuffer::around(&mut scratch[..]);
            let left = operation(&mut self.context, &mut output).map_err(get_error_name)?;
            out.extend_from_slice(output.as_slice());
            if left == 0 {
                return Ok(());
            }
        }
    }
}

impl EncoderBackend for ZstdEncoder {
    fn encode(&mut self, input: &[u8], out: &mut BytesMut) -> Result<(), &'static str> {
        let mut scratch = [0; SCRATCH];
        let mut input = InBuffer::around(input);
        while input.pos() < input.src.len() {
            let mut output = OutBuffer::around(&mut scratch[..]);
            self.context.compress_stream(&mut output, &mut input).map_err(get_error_name)?;
            out.extend_from_slice(output.as_slice());
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut BytesMut) -> Result<(), &'static str> {
        self.drain(out, |context, output| context.flush_stream(output))
    }

    fn finish(mut self: Box<Self>, out: &mut BytesMut) -> Result<(), &'static str> {
        self.drain(out, |context, output| context.end_stream(output))
    }
}

/// A decoder of zstd frames, whose contents are joined; skippable frames are skipped.
pub(super) struct ZstdDecoder {
    context: DCtx<'static>,
    window_log: u8,
    /// At the end of a frame: the body may end here.
    complete: bool,
}

impl ZstdDecoder {
    pub(super) fn new(window_log: u8) -> Result<Self, ContentDecodeError> {
        let memory = |reason| ContentDecodeError::Memory { coding: ContentCoding::Zstd, reason };
        let mut context = DCtx::try_create().ok_or_else(|| memory("no context"))?;
        context
            .set_parameter(DParameter::WindowLogMax(u32::from(window_log)))
            .map_err(|code| memory(get_error_name(code)))?;
        Ok(Self { context, window_log, complete: false })
    }

    fn error(&self, code: usize) -> ContentDecodeError {
        let coding = ContentCoding::Zstd;
        match get_error_name(code) {
            WINDOW_TOO_LARGE => {
                ContentDecodeError::WindowTooLarge { coding, limit: self.window_log }
            }
            reason => ContentDecodeError::Corrupt { coding, reason },
        }
    }
}

impl DecoderBackend for ZstdDecoder {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<DecoderStep, ContentDecodeError> {
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around(out);
        let hint = self
            .context
            .decompress_stream(&mut output, &mut input)
            .map_err(|code| self.error(code))?;
        self.complete = hint == 0;
        Ok(DecoderStep { consumed: input.pos(), written: output.pos() })
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    /// Text without much repetition.
    fn text(len: usize) -> Vec<u8> {
        let numbers = (0..len as u32 / 4).map(|at| at.wrapping_mul(2_654_435_761));
        numbers.flat_map(|number| number.to_le_bytes().map(|byte| byte & 0x3f)).collect()
    }

    fn encode(window_log: u8, text: &[u8]) -> (BytesMut, usize) {
        let mut encoder = Box::new(ZstdEncoder::new(3, window_log).unwrap());
        let mut out = BytesMut::new();
        encoder.encode(text, &mut out).unwrap();
        encoder.flush(&mut out).unwrap();
        let held = encoder.context.sizeof();
        encoder.finish(&mut out).unwrap();
        (out, held)
    }

    /// libzstd allocates by malloc, so it is asked.
    #[test]
    fn h09_the_memory_of_zstd_is_as_documented() {
        let text = text(KIB * KIB);
        for (window_log, encoder_most, decoder_most) in
            [(10, 800, 100), (18, 1800, 740), (20, 2600, 1510), (23, 9800, 8700)]
        {
            let (encoded, held) = encode(window_log, &text);
            assert!(held <= encoder_most * KIB, "encoder, window 2^{window_log}: {held} bytes");
            let mut decoder = ZstdDecoder::new(window_log).unwrap();
            assert!(decoder.context.sizeof() <= 95 * KIB, "before a frame");
            let (mut input, mut scratch) = (&encoded[..], [0; SCRATCH]);
            while !decoder.is_complete() {
                let step = decoder.decode(input, &mut scratch).unwrap();
                input = &input[step.consumed..];
            }
            let held = decoder.context.sizeof();
            assert!(held <= decoder_most * KIB, "decoder, window 2^{window_log}: {held} bytes");
        }
    }
}
