//! The path of a URI as a path below a folder: decoded once, checked, or refused. Touches no file.

use std::ffi::OsString;
// Names of files are bytes on Unix, so that every sequence of bytes without `/` and NUL can be asked for.
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The longest name of a file or folder that is looked for, in bytes: NAME_MAX of Linux and the BSDs. The kernel
/// limits the whole path.
pub(crate) const MAX_NAME_LEN: usize = 255;

/// A path below the root: names without `.` and `..`, each of which is one entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelativePath {
    /// The names, joined by `/`; empty for the root.
    pub(crate) path: PathBuf,
    /// True if a slash follows the last name: only a folder is meant.
    pub(crate) trailing_slash: bool,
}

/// The reason why a path of a URI names no file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathRefusal {
    #[error("the '%' at byte {position} is not followed by two hexadecimal digits")]
    Escape { position: usize },
    #[error("byte {position} is NUL")]
    Nul { position: usize },
    #[error("byte {position} is a backslash, or an escaped separator")]
    Separator { position: usize },
    #[error("the name at byte {position} is '.' or '..'")]
    Dots { position: usize },
    #[error("the name at byte {position} is empty")]
    EmptyName { position: usize },
    #[error("the name at byte {position} has {len} bytes, at most {MAX_NAME_LEN} are possible")]
    NameTooLong { position: usize, len: usize },
    #[error("the name at byte {position} begins with a dot")]
    Hidden { position: usize },
}

/// Resolves the path of a URI, still percent-encoded, with or without the slash at its front.
///
/// Each escape is decoded once, so that `%252e` is the name `%2e`. Paths are not normalized: clients have removed dots
/// before they ask, and whoever sends them looks for a way out.
pub(crate) fn resolve(path: &str, hidden_files: bool) -> Result<RelativePath, PathRefusal> {
    let all = path.as_bytes();
    let begin = usize::from(all.first() == Some(&b'/'));
    if begin == all.len() {
        return Ok(RelativePath { path: PathBuf::new(), trailing_slash: begin == 1 });
    }
    let trailing_slash = all.ends_with(b"/");
    let end = all.len() - usize::from(trailing_slash);
    if begin > end {
        return Err(PathRefusal::EmptyName { position: end });
    }
    let mut decoded = Vec::with_capacity(end - begin);
    let mut position = begin;
    for name in all[begin..end].split(|byte| *byte == b'/') {
        if position > begin {
            decoded.push(b'/');
        }
        let before = decoded.len();
        decode_name(name, position, &mut decoded)?;
        check_name(&decoded[before..], position, hidden_files)?;
        position += name.len() + 1;
    }
    Ok(RelativePath { path: PathBuf::from(OsString::from_vec(decoded)), trailing_slash })
}

/// Decodes the escapes of one name, which begins at `position` of its path.
fn decode_name(name: &[u8], position: usize, decoded: &mut Vec<u8>) -> Result<(), PathRefusal> {
    let mut at = 0;
    while let Some(&byte) = name.get(at) {
        let position = position + at;
        let byte = if byte == b'%' {
            let digits = name.get(at + 1).zip(name.get(at + 2));
            let value = digits.and_then(|(high, low)| Some((hex(*high)? << 4) | hex(*low)?));
            at += 2;
            value.ok_or(PathRefusal::Escape { position })?
        } else {
            byte
        };
        match byte {
            0 => return Err(PathRefusal::Nul { position }),
            b'/' | b'\\' => return Err(PathRefusal::Separator { position }),
            byte => decoded.push(byte),
        }
        at += 1;
    }
    Ok(())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn check_name(name: &[u8], position: usize, hidden_files: bool) -> Result<(), PathRefusal> {
    match name {
        [] => Err(PathRefusal::EmptyName { position }),
        b"." | b".." => Err(PathRefusal::Dots { position }),
        [b'.', ..] if !hidden_files => Err(PathRefusal::Hidden { position }),
        name if name.len() > MAX_NAME_LEN => {
            Err(PathRefusal::NameTooLong { position, len: name.len() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn h08_paths_are_decoded_once() {
        let longest = "n".repeat(MAX_NAME_LEN);
        let rows: [(&str, &[u8], bool); 20] = [
            ("", b"", false),
            ("/", b"", true),
            ("/a", b"a", false),
            ("a", b"a", false),
            ("/a/", b"a", true),
            ("a/", b"a", true),
            ("/a/b.txt", b"a/b.txt", false),
            ("/%61%2Etxt", b"a.txt", false),
            ("/a%20b", b"a b", false),
            ("/a+b", b"a+b", false),
            ("/%252e%252e/x", b"%2e%2e/x", false),
            ("/%25", b"%", false),
            ("/a%2525", b"a%25", false),
            ("/%ff%fe", b"\xff\xfe", false),
            ("/%c0%ae%c0%ae/x", b"\xc0\xae\xc0\xae/x", false),
            ("/ä", "ä".as_bytes(), false),
            ("/%C3%A4", "ä".as_bytes(), false),
            ("/a..", b"a..", false),
            ("/a?b;c:d", b"a?b;c:d", false),
            (&longest, longest.as_bytes(), false),
        ];
        for (path, expected, trailing_slash) in rows {
            let resolved = resolve(path, false).unwrap();
            assert_eq!(resolved.path.as_os_str().as_bytes(), expected, "{path}");
            assert_eq!(resolved.trailing_slash, trailing_slash, "{path}");
        }
    }

    #[test]
    fn h08_paths_with_a_way_out_are_refused() {
        use PathRefusal::{Dots, EmptyName, Escape, NameTooLong, Nul, Separator};
        let too_long = format!("/a/{}", "n".repeat(MAX_NAME_LEN + 1));
        let rows = [
            ("/..", Dots { position: 1 }),
            ("..", Dots { position: 0 }),
            ("/../", Dots { position: 1 }),
            ("/.", Dots { position: 1 }),
            ("/a/./b", Dots { position: 3 }),
            ("/a/../b", Dots { position: 3 }),
            ("/%2e%2e/x", Dots { position: 1 }),
            ("/.%2E/x", Dots { position: 1 }),
            ("/%2e", Dots { position: 1 }),
            ("/a%2fb", Separator { position: 2 }),
            ("/..%2f..%2fx", Separator { position: 3 }),
            ("/a%5Cb", Separator { position: 2 }),
            ("/..\\x", Separator { position: 3 }),
            ("/a%00.txt", Nul { position: 2 }),
            ("/a\0", Nul { position: 2 }),
            ("//", EmptyName { position: 1 }),
            ("///", EmptyName { position: 1 }),
            ("//evil.com/..", EmptyName { position: 1 }),
            ("/a//b", EmptyName { position: 3 }),
            ("/a//", EmptyName { position: 3 }),
            ("/%", Escape { position: 1 }),
            ("/a%2", Escape { position: 2 }),
            ("/%2/f", Escape { position: 1 }),
            ("/%zz", Escape { position: 1 }),
            ("/%+1", Escape { position: 1 }),
            ("/%u002e", Escape { position: 1 }),
            (&too_long, NameTooLong { position: 3, len: MAX_NAME_LEN + 1 }),
        ];
        for (path, refusal) in rows {
            for hidden_files in [false, true] {
                assert_eq!(resolve(path, hidden_files), Err(refusal.clone()), "{path:?}");
            }
        }
    }

    #[test]
    fn h08_hidden_names_are_refused_unless_allowed() {
        let rows = [
            ("/.git/config", 1),
            ("/a/.env", 3),
            ("/%2eenv", 1),
            ("/a/.well-known/", 3),
            ("/...", 1),
        ];
        for (path, position) in rows {
            assert_eq!(resolve(path, false), Err(PathRefusal::Hidden { position }), "{path}");
            assert!(resolve(path, true).is_ok(), "{path}");
        }
    }
}
