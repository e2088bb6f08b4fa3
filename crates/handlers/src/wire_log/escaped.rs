//! Peers' bytes and texts as one line of a log: escaped, and cut off at a limit.

use std::fmt::{self, Write};

/// Bytes in quotes: printable ASCII as it is, anything else as `\n` or `\xff`. At most `max` of them are shown, and the
/// number of the others.
pub(super) struct QuotedBytes<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) max: usize,
}

impl fmt::Display for QuotedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(self.max)];
        let rest = self.bytes.len() - shown.len();
        match (shown, rest) {
            ([], _) => Ok(()),
            (_, 0) => write!(f, " \"{}\"", shown.escape_ascii()),
            _ => write!(f, " \"{}\" and {rest} more", shown.escape_ascii()),
        }
    }
}

/// A text with everything but printable ASCII escaped, so that it can neither end the line nor move a terminal's cursor.
/// At most `max` characters are shown, then an ellipsis.
pub(super) struct EscapedText<T> {
    pub(super) text: T,
    pub(super) max: usize,
}

impl<T: fmt::Display> fmt::Display for EscapedText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = EscapingWriter { out: f, left: self.max, is_cut: false };
        let result = write!(out, "{}", self.text);
        if out.is_cut { f.write_str("...") } else { result }
    }
}

/// Escapes what is written to it. A write beyond the limit fails, which ends the formatting of a long value early.
pub(super) struct EscapingWriter<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    left: usize,
    is_cut: bool,
}

impl Write for EscapingWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.left == 0 {
                self.is_cut = true;
                return Err(fmt::Error);
            }
            self.left -= 1;
            match c {
                ' '..='~' => self.out.write_char(c)?,
                _ => write!(self.out, "{}", c.escape_default())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k06_bytes_are_quoted_and_cut_off() {
        let show = |bytes: &[u8], max| QuotedBytes { bytes, max }.to_string();
        assert_eq!(show(b"a\"b\r\n\x1b[2J\xff", 99), r#" "a\"b\r\n\x1b[2J\xff""#);
        assert_eq!(show(b"abc", 3), r#" "abc""#);
        assert_eq!(show(b"abcd", 3), r#" "abc" and 1 more"#);
        assert_eq!((show(b"abcd", 0), show(b"", 9)), (String::new(), String::new()));
    }

    #[test]
    fn k06_texts_are_escaped_and_cut_off() {
        let show = |text: &str, max| EscapedText { text, max }.to_string();
        assert_eq!(show("a b\n\u{7f}\u{9b}\u{202e}é", 99), r"a b\n\u{7f}\u{9b}\u{202e}\u{e9}");
        assert_eq!(
            (show("abc", 3), show("abcd", 3), show("", 0)),
            ("abc".into(), "abc...".into(), "".into())
        );
    }
}
