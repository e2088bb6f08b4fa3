//! The check of a text that comes in pieces.

use super::error::ProtocolError;

/// The bytes of a character whose rest has not come yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CutCharacter {
    bytes: [u8; 4],
    len: usize,
}

impl CutCharacter {
    /// True between two characters.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the next piece of a text, but for the beginning of a character at its end, which is kept. Fails at the
    /// first byte that no continuation can make valid.
    pub(super) fn append(&mut self, piece: &[u8], text: &mut String) -> Result<(), ProtocolError> {
        let piece = self.complete(piece, text)?;
        match simdutf8::compat::from_utf8(piece) {
            Ok(valid) => text.push_str(valid),
            Err(error) if error.error_len().is_some() => return Err(ProtocolError::InvalidUtf8),
            Err(error) => {
                let (valid, cut) = piece.split_at(error.valid_up_to());
                // Checked a moment ago; not by simdutf8, whose answer was about the whole piece.
                text.push_str(str::from_utf8(valid).map_err(|_| ProtocolError::InvalidUtf8)?);
                self.bytes[..cut.len()].copy_from_slice(cut);
                self.len = cut.len();
            }
        }
        Ok(())
    }

    /// Completes the character that was cut; returns the bytes after it.
    fn complete<'a>(
        &mut self,
        mut piece: &'a [u8],
        text: &mut String,
    ) -> Result<&'a [u8], ProtocolError> {
        while self.len > 0
            && let [next, rest @ ..] = piece
        {
            self.bytes[self.len] = *next;
            self.len += 1;
            piece = rest;
            match str::from_utf8(&self.bytes[..self.len]) {
                Ok(character) => {
                    text.push_str(character);
                    self.len = 0;
                }
                Err(error) if error.error_len().is_some() => {
                    return Err(ProtocolError::InvalidUtf8);
                }
                Err(_) => {}
            }
        }
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text, or the number of bytes that were accepted before the check failed.
    fn checked(bytes: &[u8], cut: usize) -> Result<String, usize> {
        let (mut state, mut text) = (CutCharacter::default(), String::new());
        for (at, piece) in bytes.chunks(cut).enumerate() {
            state.append(piece, &mut text).map_err(|_| at * cut)?;
        }
        if state.is_empty() { Ok(text) } else { Err(bytes.len()) }
    }

    #[test]
    fn w02_a_text_is_the_same_however_it_is_cut() {
        let text = "aé漢😀 and more ASCII behind, \u{fffd}\u{10ffff}\u{d7ff}\u{e000}".repeat(20);
        for cut in 1..text.len() {
            assert_eq!(checked(text.as_bytes(), cut).as_deref(), Ok(text.as_str()), "cut {cut}");
        }
    }

    #[test]
    fn w02_an_invalid_text_fails_at_its_first_wrong_byte() {
        let cases: [(&[u8], usize); 12] = [
            (b"\x80", 0),
            (b"ab\xc0\xaf", 2),
            (b"\xc1\xbf", 0),
            (b"\xe0\x80\x80", 1),
            (b"\xed\xa0\x80", 1),
            (b"\xf0\x80\x80\x80", 1),
            (b"\xf4\x90\x80\x80", 1),
            (b"\xf5\x80\x80\x80", 0),
            (b"\xff", 0),
            (b"\xe6\xbc\x41", 2),
            (b"\xf0\x9f\x98\xf0", 3),
            (b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80", 12),
        ];
        for (bytes, at) in cases {
            assert_eq!(checked(bytes, 1), Err(at), "{bytes:x?}");
            for cut in 2..=bytes.len() {
                assert!(checked(bytes, cut).is_err(), "{bytes:x?} cut {cut}");
            }
        }
        assert_eq!(checked("é".as_bytes().split_at(1).0, 1), Err(1), "an unfinished character");
    }
}
