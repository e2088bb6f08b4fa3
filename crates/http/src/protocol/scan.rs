//! Finding the end of a line, and what may not stand in it, in one pass over blocks of bytes.

/// True for the bytes that end a line or may not stand in it: control characters other than the tab, and DEL.
const fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// Returns the index of the first control character at or after `from`, tabs excepted; the length if there is none.
#[inline]
pub(super) fn find_control(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at += count_printable_words(bytes.get(at..).unwrap_or_default());
        // The word that is not printable, or the bytes that are no word.
        let end = bytes.len().min(at + 8);
        for (offset, byte) in bytes.get(at..end).unwrap_or_default().iter().enumerate() {
            if CONTROL[usize::from(*byte)] {
                return at + offset;
            }
        }
        if end == bytes.len() {
            return end;
        }
        at = end;
    }
}

/// Returns the number of bytes at the front that are whole words of printable ASCII.
#[inline]
fn count_printable_words(bytes: &[u8]) -> usize {
    let mut count = 0;
    for word in bytes.chunks_exact(8) {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        let word = u64::from_le_bytes(eight);
        // Sets the highest bit of some byte unless all are from 0x20 to 0x7e: one below borrows, one from 0x7f on carries.
        let is_other = word.wrapping_sub(repeat(0x20)) | word.wrapping_add(repeat(0x01));
        if is_other & repeat(0x80) != 0 {
            break;
        }
        count += 8;
    }
    count
}

/// The same byte eight times.
const fn repeat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

static CONTROL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_control(byte as u8);
        byte += 1;
    }
    table
};

/// Returns the index of the first byte at or after `from` that is no token byte; the length if there is none.
#[inline]
pub(super) fn find_token_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().position(|byte| !TOKEN[usize::from(*byte)]).unwrap_or(rest.len())
}

/// True for the bytes of a token (RFC 9110, section 5.6.2).
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = super::fields::is_token_byte(byte as u8);
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h03_controls_are_found_wherever_they_stand() {
        for byte in 0..=255u8 {
            for len in 0..20 {
                for at in 0..=len {
                    let mut bytes = vec![b'a'; len + 1];
                    bytes[at] = byte;
                    let expected = if is_control(byte) { at } else { len + 1 };
                    assert_eq!(find_control(&bytes, 0), expected, "{byte:#x} at {at} of {len}");
                }
            }
        }
    }

    #[test]
    fn h03_the_first_of_several_controls_is_found() {
        let neighbours = [b'\t', b' ', 0x1f, 0x20, 0x21, 0x7e, 0x7f, 0x80, 0x9f, 0xff, b'\r', 0];
        for a in neighbours {
            for b in neighbours {
                for c in neighbours {
                    let bytes = [b'x', a, b, c, b'y', b'\n', b'z', b'z', a, b];
                    let expected = bytes.iter().position(|byte| is_control(*byte)).unwrap();
                    assert_eq!(find_control(&bytes, 0), expected, "{bytes:x?}");
                    let expected =
                        bytes[2..].iter().position(|byte| is_control(*byte)).unwrap() + 2;
                    assert_eq!(find_control(&bytes, 2), expected, "{bytes:x?}");
                }
            }
        }
        assert_eq!((find_control(b"", 0), find_control(b"ab", 2)), (0, 2));
    }

    #[test]
    fn h03_a_token_ends_at_the_first_other_byte() {
        assert_eq!(find_token_end(b"Host: a", 0), 4);
        assert_eq!(find_token_end(b"Host", 1), 4);
        assert_eq!(find_token_end(b" ", 0), 0);
    }
}
