//! The header of a gzip member (RFC 1952, section 2.3), read in pieces and not stored.

use flate2::Crc;
use memchr::memchr;

const FLAG_HEADER_CRC: u8 = 1 << 1;
const FLAG_EXTRA: u8 = 1 << 2;
const FLAG_NAME: u8 = 1 << 3;
const FLAG_COMMENT: u8 = 1 << 4;
/// Flags without a meaning: a decoder must refuse them, because a field of unknown length may follow.
const FLAGS_RESERVED: u8 = 0xe0;

/// The offset of the flags, and the length of the part that every header has.
const FLAGS_AT: u16 = 3;
const FIXED_LENGTH: u16 = 10;

/// A reader of one header.
pub(super) struct GzipHeader {
    /// Over all bytes before the checksum itself.
    crc: Crc,
    flags: u8,
    field: HeaderField,
    /// Bytes of the field read so far.
    at: u16,
    /// The number that the field has brought so far: the extra field's length, or the checksum.
    number: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderField {
    Fixed,
    ExtraLength,
    Extra,
    Name,
    Comment,
    HeaderCrc,
    End,
}

impl GzipHeader {
    pub(super) fn new() -> Self {
        Self { crc: Crc::new(), flags: 0, field: HeaderField::Fixed, at: 0, number: 0 }
    }

    /// True if no byte was read yet.
    pub(super) fn is_empty(&self) -> bool {
        self.field == HeaderField::Fixed && self.at == 0
    }

    /// True while the magic number is not read: other bytes are not a member at all.
    pub(super) fn is_in_magic(&self) -> bool {
        self.field == HeaderField::Fixed && self.at < 2
    }

    /// True if the header was read to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.field == HeaderField::End
    }

    /// Reads from the front of `input`; returns how many bytes belong to the header.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<usize, &'static str> {
        let mut rest = input;
        while let (false, &[first, ..]) = (self.is_complete(), rest) {
            let taken = match self.field {
                HeaderField::Extra => rest.len().min(usize::from(self.number - self.at)),
                HeaderField::Name | HeaderField::Comment => {
                    memchr(0, rest).map_or(rest.len(), |end| end + 1)
                }
                _ => 1,
            };
            let (part, behind) = rest.split_at(taken);
            if self.field != HeaderField::HeaderCrc {
                self.crc.update(part);
            }
            match self.field {
                HeaderField::Fixed => self.on_fixed(first)?,
                HeaderField::ExtraLength => self.on_extra_length(first),
                HeaderField::Extra => {
                    self.at += taken as u16; // At most the rest of a length of 16 bits.
                    if self.at == self.number {
                        self.enter_after(HeaderField::Extra);
                    }
                }
                field @ (HeaderField::Name | HeaderField::Comment) => {
                    if part.ends_with(&[0]) {
                        self.enter_after(field);
                    }
                }
                HeaderField::HeaderCrc => self.on_header_crc(first)?,
                HeaderField::End => {}
            }
            rest = behind;
        }
        Ok(input.len() - rest.len())
    }

    fn on_fixed(&mut self, byte: u8) -> Result<(), &'static str> {
        match (self.at, byte) {
            (0, 0x1f) | (1, 0x8b) | (2, 8) => {}
            (0 | 1, _) => return Err("no gzip magic number"),
            (2, _) => return Err("unknown compression method"),
            (FLAGS_AT, flags) if flags & FLAGS_RESERVED != 0 => {
                return Err("reserved flags are set");
            }
            (FLAGS_AT, flags) => self.flags = flags,
            _ => {} // Time, extra flags, operating system.
        }
        self.at += 1;
        if self.at == FIXED_LENGTH {
            self.enter_after(HeaderField::Fixed);
        }
        Ok(())
    }

    fn on_extra_length(&mut self, byte: u8) {
        self.number |= u16::from(byte) << (8 * self.at);
        self.at += 1;
        if self.at == 2 {
            let length = self.number;
            self.enter(HeaderField::Extra);
            self.number = length;
            if length == 0 {
                self.enter_after(HeaderField::Extra);
            }
        }
    }

    fn on_header_crc(&mut self, byte: u8) -> Result<(), &'static str> {
        self.number |= u16::from(byte) << (8 * self.at);
        self.at += 1;
        if self.at == 2 {
            if self.number != self.crc.sum() as u16 {
                return Err("the header's checksum differs");
            }
            self.enter(HeaderField::End);
        }
        Ok(())
    }

    fn enter(&mut self, field: HeaderField) {
        (self.field, self.at, self.number) = (field, 0, 0);
    }

    /// Enters the next field that the flags announce.
    fn enter_after(&mut self, field: HeaderField) {
        let order = [
            (HeaderField::ExtraLength, FLAG_EXTRA),
            (HeaderField::Name, FLAG_NAME),
            (HeaderField::Comment, FLAG_COMMENT),
            (HeaderField::HeaderCrc, FLAG_HEADER_CRC),
        ];
        let behind = match field {
            HeaderField::Fixed => &order[..],
            HeaderField::ExtraLength | HeaderField::Extra => &order[1..],
            HeaderField::Name => &order[2..],
            _ => &order[3..],
        };
        let next = behind.iter().find(|(_, flag)| self.flags & flag != 0);
        self.enter(next.map_or(HeaderField::End, |(field, _)| *field));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with every field, and its checksum.
    fn full_header() -> Vec<u8> {
        let mut bytes = vec![0x1f, 0x8b, 8, 0x1e, 1, 2, 3, 4, 0, 3];
        bytes.extend([3, 0, b'a', 0, b'c']);
        bytes.extend(b"name\0a comment\0");
        let mut crc = Crc::new();
        crc.update(&bytes);
        bytes.extend((crc.sum() as u16).to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8], step: usize) -> Result<usize, &'static str> {
        let mut header = GzipHeader::new();
        let mut consumed = 0;
        for piece in bytes.chunks(step) {
            let taken = header.read(piece)?;
            consumed += taken;
            if header.is_complete() {
                return Ok(consumed);
            }
            assert_eq!(taken, piece.len(), "an incomplete header takes all");
        }
        Err("incomplete")
    }

    #[test]
    fn h09_a_gzip_header_with_every_field_is_skipped_however_it_is_cut() {
        let header = full_header();
        let stream = [&header[..], b"body"].concat();
        for step in 1..=stream.len() {
            assert_eq!(read(&stream, step), Ok(header.len()), "in pieces of {step}");
        }
        for end in 0..header.len() {
            assert_eq!(read(&header[..end], header.len()), Err("incomplete"), "{end} bytes");
        }
    }

    #[test]
    fn h09_a_wrong_gzip_header_is_refused() {
        let mut wrong_sum = full_header();
        *wrong_sum.last_mut().unwrap() ^= 1;
        let table: &[(&[u8], &str)] = &[
            (b"\x1f\x8c", "no gzip magic number"),
            (b"PK", "no gzip magic number"),
            (b"\x1f\x8b\x07", "unknown compression method"),
            (b"\x1f\x8b\x08\x20", "reserved flags are set"),
            (&wrong_sum, "the header's checksum differs"),
        ];
        for (bytes, error) in table {
            assert_eq!(read(bytes, 100), Err(*error));
            assert_eq!(read(bytes, 1), Err(*error));
        }
    }

    #[test]
    fn h09_an_empty_extra_field_is_skipped() {
        let bytes = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3, 0, 0];
        assert_eq!(read(&bytes, 1), Ok(12));
    }
}
