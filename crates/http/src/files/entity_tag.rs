//! Entity tags (RFC 9110 section 8.8.3): lists of them in requests, and the two comparisons.

use http::HeaderMap;
use http::header::HeaderName;
use memchr::memchr;

/// An entity tag: `"…"` or `W/"…"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntityTag<'a> {
    /// True if equal tags may stand for different bytes.
    pub(crate) weak: bool,
    /// The text between the quotes.
    pub(crate) opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Parses a tag at the front of a text, and returns what follows it.
    pub(crate) fn parse_prefix(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (weak, quoted) = match text.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, text),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let (opaque, rest) = inner.split_at(memchr(b'"', inner)?);
        // Everything visible; a header's value has no DEL and no control bytes other than the tab.
        let is_tag = opaque.iter().all(|byte| !matches!(byte, 0..=b' ' | 0x7f));
        is_tag.then_some((Self { weak, opaque }, &rest[1..]))
    }

    /// True if both tags stand for the same bytes.
    pub(crate) fn matches_strongly(self, other: EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// True if both tags stand for equivalent contents.
    pub(crate) fn matches_weakly(self, other: EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// True if a header that lists entity tags holds one that matches, or is `*`. A list counts up to its first error.
pub(crate) fn lists_a_match(
    headers: &HeaderMap,
    name: HeaderName,
    matches: impl Fn(EntityTag<'_>) -> bool,
) -> bool {
    let is_list_match = |line: &[u8]| line == b"*" || EntityTags { rest: line }.any(&matches);
    headers.get_all(name).iter().any(|line| is_list_match(line.as_bytes()))
}

/// The entity tags of one line. Ends at the first error.
struct EntityTags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for EntityTags<'a> {
    type Item = EntityTag<'a>;

    fn next(&mut self) -> Option<EntityTag<'a>> {
        while let [b' ' | b'\t' | b',', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let (tag, rest) = EntityTag::parse_prefix(std::mem::take(&mut self.rest))?;
        let rest = rest.trim_ascii_start();
        self.rest = rest;
        matches!(rest, [] | [b',', ..]).then_some(tag)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::IF_MATCH;

    use super::*;

    fn tags(line: &str) -> Vec<String> {
        let tag = |tag: EntityTag<'_>| {
            let opaque = String::from_utf8_lossy(tag.opaque);
            format!("{}{opaque}", if tag.weak { "W/" } else { "" })
        };
        EntityTags { rest: line.as_bytes() }.map(tag).collect()
    }

    #[test]
    fn h08_lists_of_entity_tags_are_read_up_to_the_first_error() {
        let rows: [(&str, &[&str]); 15] = [
            ("", &[]),
            ("\"a\"", &["a"]),
            ("W/\"a\"", &["W/a"]),
            ("\"\"", &[""]),
            ("\"a\",\"b\"", &["a", "b"]),
            (" , \"a\" ,\t, W/\"b\" ,", &["a", "W/b"]),
            ("\"a,b\", \"c\"", &["a,b", "c"]),
            ("\"a\\\", \"b\"", &["a\\", "b"]),
            ("w/\"a\"", &[]),
            ("\"a", &[]),
            ("a", &[]),
            ("\"a b\"", &[]),
            ("\"a\" \"b\"", &[]),
            ("\"a\", b, \"c\"", &["a"]),
            ("\"a\", *", &["a"]),
        ];
        for (line, expected) in rows {
            assert_eq!(tags(line), expected, "{line}");
        }
    }

    /// RFC 9110 section 8.8.3.2.
    #[test]
    fn h08_entity_tags_compare_strongly_and_weakly() {
        let tag = |weak, opaque| EntityTag { weak, opaque };
        let rows = [
            (tag(true, b"1"), tag(true, b"1"), false, true),
            (tag(true, b"1"), tag(true, b"2"), false, false),
            (tag(true, b"1"), tag(false, b"1"), false, true),
            (tag(false, b"1"), tag(false, b"1"), true, true),
        ];
        for (one, other, strongly, weakly) in rows {
            assert_eq!(one.matches_strongly(other), strongly, "{one:?} {other:?}");
            assert_eq!(one.matches_weakly(other), weakly, "{one:?} {other:?}");
        }
    }

    #[test]
    fn h08_entity_tags_of_all_lines_count() {
        let mut headers = HeaderMap::new();
        let is = |wanted: &'static [u8]| move |tag: EntityTag<'_>| tag.opaque == wanted;
        assert!(!lists_a_match(&headers, IF_MATCH, |_| true));
        headers.append(IF_MATCH, HeaderValue::from_static("\"a\", broken"));
        headers.append(IF_MATCH, HeaderValue::from_static("\"b\""));
        assert!(lists_a_match(&headers, IF_MATCH, is(b"a")));
        assert!(lists_a_match(&headers, IF_MATCH, is(b"b")));
        assert!(!lists_a_match(&headers, IF_MATCH, is(b"c")));
        headers.append(IF_MATCH, HeaderValue::from_static("*"));
        assert!(lists_a_match(&headers, IF_MATCH, |_| false));
    }
}
