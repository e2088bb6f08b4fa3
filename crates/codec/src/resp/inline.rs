//! Inline commands, as typed by people: `SET greeting "hello, world"`.

use super::error::RespError;

/// Splits a line into words as Redis does: at white space; `"…"` with escapes; `'…'` literally except `\'`. A closing
/// quote ends the word.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, RespError> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let mut word = Vec::new();
        loop {
            match rest {
                [] => break,
                [b'"', quoted @ ..] => {
                    rest = double_quoted(quoted, &mut word)?;
                    break;
                }
                [b'\'', quoted @ ..] => {
                    rest = single_quoted(quoted, &mut word)?;
                    break;
                }
                [byte, ..] if byte.is_ascii_whitespace() => break,
                [byte, after @ ..] => {
                    word.push(*byte);
                    rest = after;
                }
            }
        }
        words.push(word);
        rest = rest.trim_ascii_start();
    }
    Ok(words)
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], RespError> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return end_of_word(after),
            [b'\\', b'x', high, low, after @ ..] if let Some(byte) = hex(*high, *low) => {
                word.push(byte);
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(UNBALANCED),
        };
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], RespError> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return end_of_word(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(UNBALANCED),
        };
    }
}

fn end_of_word(rest: &[u8]) -> Result<&[u8], RespError> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(UNBALANCED),
        _ => Ok(rest),
    }
}

const UNBALANCED: RespError =
    RespError::Misplaced { what: "unbalanced quotes in an inline command" };

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let words = split(line.as_bytes()).ok()?;
        Some(words.iter().map(|word| word.escape_ascii().to_string()).collect())
    }

    #[test]
    fn k03_inline_commands_are_split_as_redis_does() {
        let cases = [
            ("", Some(vec![])),
            ("  \t ", Some(vec![])),
            ("PING", Some(vec!["PING"])),
            ("  set  a\tb ", Some(vec!["set", "a", "b"])),
            (r#"set a "b c""#, Some(vec!["set", "a", "b c"])),
            (r#"set a """#, Some(vec!["set", "a", ""])),
            (r#"set a "\x00\xff\n\"\q""#, Some(vec!["set", "a", "\\x00\\xff\\n\\\"q"])),
            (r#"set a "\xzz""#, Some(vec!["set", "a", "xzz"])),
            (r#"set a 'b\'c"\n'"#, Some(vec!["set", "a", "b\\\'c\\\"\\\\n"])),
            (r#"pre"quoted""#, Some(vec!["prequoted"])),
            (r#""a"b"#, None),
            (r#"'a'b"#, None),
            (r#"set "a"#, None),
            (r#"set 'a"#, None),
            ("set \"a\\", None),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|words| words.iter().map(ToString::to_string).collect());
            assert_eq!(words(line), expected, "{line}");
        }
    }
}
