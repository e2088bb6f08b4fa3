//! Gzip as RFC 1952 reads it: members one after the other, each with its checksum and length.

use flate2::{Crc, Decompress};

use super::deflate_stream::inflate;
use super::gzip_header::GzipHeader;
use super::{DecoderBackend, DecoderStep};
use crate::content::content_coding::ContentCoding;
use crate::content::decode_error::ContentDecodeError;

/// The length of CRC-32 and length behind the deflate stream.
const TRAILER: usize = 8;

/// A decoder of gzip members, whose contents are joined.
pub(super) struct GzipDecoder {
    stream: Decompress,
    crc: Crc,
    /// Bytes of the member decoded so far, modulo 2^32.
    length: u32,
    part: MemberPart,
    first_member: bool,
}

enum MemberPart {
    /// The header; empty between two members, where the body may end.
    Header(GzipHeader),
    Deflate,
    Trailer {
        bytes: [u8; TRAILER],
        len: usize,
    },
}

impl GzipDecoder {
    pub(super) fn new() -> Self {
        Self {
            stream: Decompress::new(false),
            crc: Crc::new(),
            length: 0,
            part: MemberPart::Header(GzipHeader::new()),
            first_member: true,
        }
    }

    fn finish_member(&mut self, trailer: [u8; TRAILER]) -> Result<(), ContentDecodeError> {
        let [a, b, c, d, e, f, g, h] = trailer;
        if u32::from_le_bytes([a, b, c, d]) != self.crc.sum() {
            return Err(corrupt("the checksum differs"));
        }
        if u32::from_le_bytes([e, f, g, h]) != self.length {
            return Err(corrupt("the length differs"));
        }
        self.stream.reset(false);
        self.crc.reset();
        self.length = 0;
        self.part = MemberPart::Header(GzipHeader::new());
        self.first_member = false;
        Ok(())
    }
}

fn corrupt(reason: &'static str) -> ContentDecodeError {
    ContentDecodeError::Corrupt { coding: ContentCoding::Gzip, reason }
}

impl DecoderBackend for GzipDecoder {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<DecoderStep, ContentDecodeError> {
        match &mut self.part {
            MemberPart::Header(header) => {
                let consumed = header.read(input).map_err(|reason| {
                    if header.is_in_magic() && !self.first_member {
                        return ContentDecodeError::TrailingBytes { coding: ContentCoding::Gzip };
                    }
                    corrupt(reason)
                })?;
                if header.is_complete() {
                    self.part = MemberPart::Deflate;
                }
                Ok(DecoderStep { consumed, written: 0 })
            }
            MemberPart::Deflate => {
                let (step, end) = inflate(&mut self.stream, input, out).map_err(corrupt)?;
                self.crc.update(&out[..step.written]);
                self.length = self.length.wrapping_add(step.written as u32);
                if end {
                    self.part = MemberPart::Trailer { bytes: [0; TRAILER], len: 0 };
                }
                Ok(step)
            }
            MemberPart::Trailer { bytes, len } => {
                let consumed = input.len().min(TRAILER - *len);
                bytes[*len..*len + consumed].copy_from_slice(&input[..consumed]);
                *len += consumed;
                if *len == TRAILER {
                    let trailer = *bytes;
                    self.finish_member(trailer)?;
                }
                Ok(DecoderStep { consumed, written: 0 })
            }
        }
    }

    fn is_complete(&self) -> bool {
        match &self.part {
            MemberPart::Header(header) => header.is_empty() && !self.first_member,
            _ => false,
        }
    }
}
