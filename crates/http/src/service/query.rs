//! The pairs of a query.

use std::borrow::Cow;

use http::Uri;

use super::percent::decode_form;

/// Iterates over the pairs of the query of a URI, in their order, decoded: `+` is a space, escapes that are not UTF-8
/// become U+FFFD, and a name without `=` has an empty value (as in the URL standard, `application/x-www-form-urlencoded`).
///
/// The work and the memory of a pair are bounded by its length, and the length of a query by
/// [`MessageLimits`](crate::MessageLimits). Only what has escapes is copied.
///
/// ```
/// use http::Uri;
/// use waterwheel_http::query_pairs;
///
/// let uri = Uri::from_static("/search?q=water+wheel&page=2");
/// let page = query_pairs(&uri).find(|(name, _)| name == "page");
/// assert_eq!(page.unwrap().1, "2");
/// ```
pub fn query_pairs(uri: &Uri) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let parts = uri.query().unwrap_or_default().split('&');
    parts.filter(|part| !part.is_empty()).map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decode_form(name), decode_form(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h07_a_query_is_split_into_decoded_pairs() {
        let table: [(&str, &[(&str, &str)]); 7] = [
            ("/", &[]),
            ("/?", &[]),
            ("/?a=1&b=2&a=3", &[("a", "1"), ("b", "2"), ("a", "3")]),
            ("/?&&a&=&", &[("a", ""), ("", "")]),
            ("/?a=b=c", &[("a", "b=c")]),
            ("/?a%26b=c%3Dd", &[("a&b", "c=d")]),
            ("/?%E2%82%AC=+%20+", &[("\u{20ac}", "   ")]),
        ];
        for (uri, pairs) in table {
            let uri = Uri::from_static(uri);
            let found: Vec<_> = query_pairs(&uri).collect();
            let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(found, pairs, "{uri}");
        }
    }
}
