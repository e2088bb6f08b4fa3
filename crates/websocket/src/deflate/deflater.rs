//! Compression of the messages of one direction.

use bytes::BytesMut;
use flate2::{Compress, Compression, FlushCompress};

/// Compresses the messages of one direction.
#[derive(Debug)]
pub(crate) struct Deflater {
    stream: Compress,
    no_context_takeover: bool,
}

impl Deflater {
    pub(crate) fn new(level: u32, no_context_takeover: bool, window_bits: u8) -> Self {
        let level = Compression::new(level);
        let stream = Compress::new_with_window_bits(level, false, window_bits.max(9));
        Self { stream, no_context_takeover }
    }

    /// Appends a part of a message, compressed; the last part without the four bytes that RFC 7692 leaves out.
    pub(crate) fn deflate(&mut self, mut data: &[u8], is_last: bool, dst: &mut BytesMut) {
        let mut out = Vec::with_capacity(data.len() / 2 + 64);
        loop {
            let read = self.stream.total_in();
            out.reserve(64);
            if self.stream.compress_vec(data, &mut out, FlushCompress::Sync).is_err() {
                return;
            }
            data = &data[(self.stream.total_in() - read) as usize..];
            if data.is_empty() && out.len() < out.capacity() {
                break;
            }
        }
        if is_last {
            out.truncate(out.len() - 4);
            if self.no_context_takeover {
                self.stream.reset();
            }
        }
        dst.extend_from_slice(&out);
    }
}
