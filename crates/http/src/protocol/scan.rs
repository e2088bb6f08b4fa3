//! Finding the end of a line, and what may not stand in it, in one pass over blocks of bytes.

/// True for the bytes that end a line or may not stand in it: control characters other than the tab, and DEL.
const fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// Returns the index of the first control character at or after `from`, tabs excepted; the length if there is none.
#[inline]
pub(super) fn find_control(bytes: &[u8], from: usize) -> usize {
    let Some(rest) = bytes.get(from..) else { return bytes.len() };
    let mut at = from;
    for word in rest.chunks_exact(8) {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        let word = u64::from_le_bytes(eight);
        // Sets the highest bit of some byte unless all are from 0x20 to 0x7e: one below borrows, one from 0x7f on carries.
        let below_space = word.wrapping_sub(repeat(0x20));
        let is_other = below_space | word.wrapping_add(repeat(0x01));
        if is_other & repeat(0x80) != 0 {
            // The highest bit of each byte below 0x20, and of each that is 0x7f. A byte above a match may be marked wrongly,
            // never one below it.
            let not_delete = word ^ repeat(0x7f);
            let delete = not_delete.wrapping_sub(repeat(0x01)) & !not_delete;
            let found = ((below_space & !word) | delete) & repeat(0x80);
            if found != 0 {
                let first = at + (found.trailing_zeros() / 8) as usize;
                return if bytes[first] == b'\t' { find_bytewise(bytes, first + 1) } else { first };
            }
        }
        at += 8;
    }
    find_bytewise(bytes, at)
}

/// Does the same byte by byte: for what is no whole word, and behind a tab.
fn find_bytewise(bytes: &[u8], from: usize) -> usize {
    let rest = &bytes[from..];
    from + rest.iter().position(|byte| CONTROL[usize::from(*byte)]).unwrap_or(rest.len())
}

/// One byte, eight times.
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
