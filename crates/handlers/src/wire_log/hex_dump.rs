//! Bytes as a table, in the format of `hexdump -C`, which `text2pcap` reads too.

use std::fmt;

/// The first `max` bytes as rows of sixteen, each on a line of its own: offset, hexadecimal, ASCII.
pub(super) struct HexDump<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) max: usize,
}

/// Bytes in a row.
const ROW: usize = 16;

impl fmt::Display for HexDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(self.max)];
        if shown.len() < self.bytes.len() {
            write!(f, ", the first {}", shown.len())?;
        }
        for (row, bytes) in shown.chunks(ROW).enumerate() {
            write!(f, "\n{:08x} ", row * ROW)?;
            for column in 0..ROW {
                let gap = if column == ROW / 2 { "  " } else { " " };
                match bytes.get(column) {
                    Some(byte) => write!(f, "{gap}{byte:02x}")?,
                    None => write!(f, "{gap}  ")?,
                }
            }
            f.write_str("  |")?;
            for byte in bytes {
                let shown = if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' };
                write!(f, "{shown}")?;
            }
            f.write_str("|")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k06_a_hex_dump_has_offset_hexadecimal_and_ascii() {
        let bytes = b"GET / HTTP/1.1\r\nHost: \xff";
        let expected = "\n\
            00000000  47 45 54 20 2f 20 48 54  54 50 2f 31 2e 31 0d 0a  |GET / HTTP/1.1..|\n\
            00000010  48 6f 73 74 3a 20 ff                              |Host: .|";
        assert_eq!(HexDump { bytes, max: 512 }.to_string(), expected);
        assert_eq!(HexDump { bytes: b"", max: 512 }.to_string(), "");
    }

    #[test]
    fn k06_a_hex_dump_is_cut_off_at_its_limit() {
        let dump = HexDump { bytes: &[b'x'; 100], max: 32 }.to_string();
        assert_eq!((dump.lines().count(), dump.lines().next()), (3, Some(", the first 32")));
        assert_eq!(HexDump { bytes: b"abc", max: 0 }.to_string(), ", the first 0");
    }
}
