//! Field lines: `name: value`, and lists in values.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memchr;

use super::error::{Malformation, MessageError};

/// Parses a field line; the value shares the memory of `bytes`. `bytes[start..end]` is the line without its end.
#[inline]
pub(super) fn parse_field(
    bytes: &Bytes,
    start: usize,
    end: usize,
) -> Result<(HeaderName, HeaderValue), MessageError> {
    let line = &bytes[start..end];
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(Malformation::FoldedLine.into());
    }
    let colon = memchr(b':', line).ok_or(Malformation::MissingColon)?;
    let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| Malformation::FieldName)?;
    let value = trim_blanks(&line[colon + 1..]);
    let value = bytes.slice_ref(value);
    let value = HeaderValue::from_maybe_shared(value).map_err(|_| Malformation::FieldValue)?;
    Ok((name, value))
}

/// Returns the bytes without the spaces and tabs around them.
pub(crate) fn trim_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Appends a field. A map has room for 2¹⁵ fields, more than any limit admits.
#[inline]
pub(super) fn append_field(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) -> bool {
    headers.try_append(name, value).is_ok()
}

/// Returns the elements of a comma-separated list without quoted strings, such as the values of Connection and
/// Transfer-Encoding. Empty elements are left out.
pub(crate) fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim_blanks).filter(|element| !element.is_empty())
}

/// True if some value of the field has this element, in any case of letters.
pub(crate) fn has_element(headers: &HeaderMap, name: &HeaderName, element: &str) -> bool {
    let mut values = headers.get_all(name).iter();
    values.any(|value| {
        list_elements(value.as_bytes()).any(|found| found.eq_ignore_ascii_case(element.as_bytes()))
    })
}

/// Returns how many bytes the fields take.
pub(crate) fn fields_len(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// True for the bytes of a token (RFC 9110, section 5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#'
            | b'$'
            | b'%'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~'
    ) || byte.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h03_a_field_name_is_a_token() {
        for byte in 0..=255u8 {
            let line = Bytes::from(vec![b'a', byte, b'b', b':', b'v']);
            let parsed = parse_field(&line, 0, line.len());
            if byte == b':' {
                assert_eq!(parsed.unwrap().1, "b:v");
                continue;
            }
            assert_eq!(parsed.is_ok(), is_token_byte(byte), "{byte:#x}: {parsed:?}");
        }
    }

    #[test]
    fn h03_a_field_value_has_no_control_characters_but_tabs() {
        for byte in 0..=255u8 {
            let line = Bytes::from(vec![b'a', b':', b' ', b'x', byte, b'y', b'\t']);
            let parsed = parse_field(&line, 0, line.len());
            let is_control = (byte < 0x20 && byte != b'\t') || byte == 0x7f;
            assert_eq!(parsed.is_err(), is_control, "{byte:#x}: {parsed:?}");
        }
    }

    #[test]
    fn h03_lists_leave_out_empty_elements() {
        let elements: Vec<_> = list_elements(b" a,, b\t,c ,").collect();
        assert_eq!(elements, [&b"a"[..], b"b", b"c"]);
    }
}
