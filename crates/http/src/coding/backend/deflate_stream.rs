//! Deflate by flate2: the parts that gzip and zlib share, and the zlib format (RFC 1950).

use bytes::BytesMut;
use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use super::{DecoderBackend, DecoderStep, SCRATCH};
use crate::content::content_coding::ContentCoding;
use crate::content::decode_error::ContentDecodeError;

/// Compresses all of `input` and as much more as `flush` asks for.
pub(super) fn deflate(
    stream: &mut Compress,
    mut input: &[u8],
    flush: FlushCompress,
    out: &mut BytesMut,
) -> Result<(), &'static str> {
    let mut scratch = [0; SCRATCH];
    loop {
        let (before_in, before_out) = (stream.total_in(), stream.total_out());
        let status = stream
            .compress(input, &mut scratch, flush)
            .map_err(|_| "deflate refused its own stream")?;
        let written = (stream.total_out() - before_out) as usize;
        out.extend_from_slice(&scratch[..written]);
        input = &input[(stream.total_in() - before_in) as usize..];
        // Room is left in the scratch: nothing more is to be written for this flush.
        if status == Status::StreamEnd || (input.is_empty() && written < SCRATCH) {
            return Ok(());
        }
    }
}

/// Inflates one step; the flag is true at the end of the deflate stream.
pub(super) fn inflate(
    stream: &mut Decompress,
    input: &[u8],
    out: &mut [u8],
) -> Result<(DecoderStep, bool), &'static str> {
    let (before_in, before_out) = (stream.total_in(), stream.total_out());
    let status = stream
        .decompress(input, out, FlushDecompress::None)
        .map_err(|_| "invalid deflate data or checksum")?;
    let step = DecoderStep {
        consumed: (stream.total_in() - before_in) as usize,
        written: (stream.total_out() - before_out) as usize,
    };
    Ok((step, status == Status::StreamEnd))
}

/// A decoder of the coding `deflate`: one zlib stream, with its Adler-32.
pub(super) struct ZlibDecoder {
    stream: Decompress,
    complete: bool,
}

impl ZlibDecoder {
    pub(super) fn new() -> Self {
        Self { stream: Decompress::new(true), complete: false }
    }
}

impl DecoderBackend for ZlibDecoder {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<DecoderStep, ContentDecodeError> {
        let coding = ContentCoding::Deflate;
        if self.complete {
            return Err(ContentDecodeError::TrailingBytes { coding });
        }
        let (step, end) = inflate(&mut self.stream, input, out)
            .map_err(|reason| ContentDecodeError::Corrupt { coding, reason })?;
        self.complete = end;
        Ok(step)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}
