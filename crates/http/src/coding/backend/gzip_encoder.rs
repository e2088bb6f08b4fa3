//! Gzip as RFC 1952 writes it: one member, without name and time.

use bytes::{BufMut, BytesMut};
use flate2::{Compress, Compression, Crc, FlushCompress};

use super::EncoderBackend;
use super::deflate_stream::deflate;

/// Magic, deflate, no flags, no time, no extra flags, unknown operating system: equal bodies have equal bytes.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// An encoder of one gzip member.
pub(super) struct GzipEncoder {
    stream: Compress,
    crc: Crc,
    /// Bytes taken in, modulo 2^32, as the trailer has them.
    length: u32,
    header_written: bool,
}

impl GzipEncoder {
    pub(super) fn new(level: u32) -> Self {
        let stream = Compress::new(Compression::new(level), false);
        Self { stream, crc: Crc::new(), length: 0, header_written: false }
    }

    fn write_header(&mut self, out: &mut BytesMut) {
        if !self.header_written {
            self.header_written = true;
            out.put_slice(&HEADER);
        }
    }
}

impl EncoderBackend for GzipEncoder {
    fn encode(&mut self, input: &[u8], out: &mut BytesMut) -> Result<(), &'static str> {
        self.write_header(out);
        self.crc.update(input);
        self.length = self.length.wrapping_add(input.len() as u32);
        deflate(&mut self.stream, input, FlushCompress::None, out)
    }

    fn flush(&mut self, out: &mut BytesMut) -> Result<(), &'static str> {
        self.write_header(out);
        deflate(&mut self.stream, &[], FlushCompress::Sync, out)
    }

    fn finish(mut self: Box<Self>, out: &mut BytesMut) -> Result<(), &'static str> {
        self.write_header(out);
        deflate(&mut self.stream, &[], FlushCompress::Finish, out)?;
        out.put_u32_le(self.crc.sum());
        out.put_u32_le(self.length);
        Ok(())
    }
}
