//! Compression of the messages of one direction.

use std::fmt;

use flate2::{Compress, FlushCompress};

use super::spare_streams::{CompressorSetting, give_compressor, take_compressor};

/// Compresses the messages of one direction. It holds a compressor while a message in parts is being sent; between
/// messages only if the context is taken over.
pub(crate) struct Deflater {
    setting: CompressorSetting,
    no_context_takeover: bool,
    stream: Option<Compress>,
}

/// The last bytes of a flush, which RFC 7692 leaves out at the end of a message.
const FLUSH_TAIL: &[u8] = &[0, 0, 0xff, 0xff];

impl Deflater {
    pub(crate) fn new(setting: CompressorSetting, no_context_takeover: bool) -> Self {
        Self { setting, no_context_takeover, stream: None }
    }

    /// Returns the setting of the compressor.
    pub(crate) fn setting(&self) -> CompressorSetting {
        self.setting
    }

    /// Compresses a message, or a part of one; the last part is without the four bytes that RFC 7692 leaves out.
    pub(crate) fn deflate(&mut self, data: &[u8], is_last: bool) -> Vec<u8> {
        let stream = self.stream.get_or_insert_with(|| take_compressor(self.setting));
        let mut out = Vec::new();
        if !data.is_empty() {
            flush_into(stream, data, &mut out);
        } else if is_last {
            // zlib writes no second flush behind one: this is a block without data, as RFC 7692 writes an empty message.
            out.push(0);
            out.extend_from_slice(FLUSH_TAIL);
        }
        if is_last {
            debug_assert!(out.ends_with(FLUSH_TAIL));
            out.truncate(out.len() - FLUSH_TAIL.len());
            if self.no_context_takeover {
                self.forget_context();
            }
        }
        out
    }

    /// Begins the next message with an empty window. Between messages only.
    pub(crate) fn forget_context(&mut self) {
        if let Some(stream) = self.stream.take() {
            give_compressor(self.setting, stream);
        }
    }
}

/// Compresses data up to the next boundary of bytes.
fn flush_into(stream: &mut Compress, mut data: &[u8], out: &mut Vec<u8>) {
    out.reserve(data.len() / 2 + 64);
    loop {
        let read = stream.total_in();
        stream
            .compress_vec(data, out, FlushCompress::Sync)
            .expect("zlib refuses no data, only calls after a finished stream");
        data = &data[(stream.total_in() - read) as usize..];
        // A flush is complete when it leaves room behind it.
        if data.is_empty() && out.len() < out.capacity() {
            return;
        }
        out.reserve(out.capacity().max(64));
    }
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflater")
            .field("setting", &self.setting)
            .field("no_context_takeover", &self.no_context_takeover)
            .finish_non_exhaustive()
    }
}
