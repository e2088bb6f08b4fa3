//! Percent-encoding, as it is in paths and in queries.

use std::borrow::Cow;

/// Decodes a part of a path. Returns `None` if an escape is incomplete, or the result is not UTF-8. Text without escapes
/// is not copied.
pub(super) fn decode_path(text: &str) -> Option<Cow<'_, str>> {
    if memchr::memchr(b'%', text.as_bytes()).is_none() {
        return Some(Cow::Borrowed(text));
    }
    let (bytes, is_complete) = decode(text.as_bytes(), false);
    let decoded = String::from_utf8(bytes).ok()?;
    is_complete.then_some(Cow::Owned(decoded))
}

/// Decodes a name or a value of a form, by the rules of the URL standard: `+` is a space, an incomplete escape stays as
/// it is, and bytes that are not UTF-8 become U+FFFD. Text without escapes is not copied.
pub(super) fn decode_form(text: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'%', b'+', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let (bytes, _) = decode(text.as_bytes(), true);
    Cow::Owned(match String::from_utf8_lossy(&bytes) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    })
}

/// Decodes every complete escape. Returns false if one was incomplete.
fn decode(mut rest: &[u8], plus_is_space: bool) -> (Vec<u8>, bool) {
    let mut decoded = Vec::with_capacity(rest.len());
    let mut is_complete = true;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        decoded.push(match (first, hex_byte(behind)) {
            (b'%', Some(byte)) => {
                rest = &behind[2..];
                byte
            }
            (b'%', None) => {
                is_complete = false;
                b'%'
            }
            (b'+', _) if plus_is_space => b' ',
            _ => first,
        });
    }
    (decoded, is_complete)
}

/// Returns the byte that two hexadecimal digits are.
fn hex_byte(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h07_parts_of_paths_are_decoded_strictly() {
        let good = [("", ""), ("a+b", "a+b"), ("%41%c3%A9", "A\u{e9}"), ("%2F%00", "/\0")];
        for (text, decoded) in good {
            assert_eq!(decode_path(text).as_deref(), Some(decoded), "{text}");
        }
        for bad in ["%", "%4", "%4g", "%%41", "a%", "%ff", "%c3", "%+1", "%-1"] {
            assert_eq!(decode_path(bad), None, "{bad}");
        }
        assert!(matches!(decode_path("plain"), Some(Cow::Borrowed("plain"))));
    }

    #[test]
    fn h07_parts_of_forms_are_decoded_as_browsers_do() {
        let table = [("a+b", "a b"), ("%2B", "+"), ("100%", "100%"), ("%4g%41", "%4gA")];
        for (text, decoded) in table {
            assert_eq!(decode_form(text), decoded, "{text}");
        }
        assert_eq!(decode_form("%ff"), "\u{fffd}");
        assert!(matches!(decode_form("plain"), Cow::Borrowed("plain")));
    }
}
