//! References to URLs, relative to another one (RFC 3986, section 5.2).

use http::Uri;

/// Returns the URL that a reference means at a base, without its fragment; `None` if the base has no scheme or host.
pub(super) fn resolve_reference(base: &Uri, reference: &str) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    if has_scheme(reference) {
        return Some(reference.to_owned());
    }
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    if reference.starts_with("//") {
        return Some(format!("{scheme}:{reference}"));
    }
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let (path, query) = match path {
        "" => (base.path().to_owned(), query.or(base.query())),
        absolute if absolute.starts_with('/') => (remove_dots(absolute), query),
        relative => {
            let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            (remove_dots(&format!("{folder}/{relative}")), query)
        }
    };
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    Some(format!("{scheme}://{authority}{path}{query}"))
}

/// True if the reference begins with `scheme:`.
fn has_scheme(reference: &str) -> bool {
    let Some((scheme, _)) = reference.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Removes the segments `.` and `..` of an absolute path.
fn remove_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut names = path.split('/').skip(1).peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        match name {
            "." | ".." => {
                if name == ".." {
                    segments.pop();
                }
                // A path that ends with dots names a folder.
                if is_last {
                    segments.push("");
                }
            }
            name => segments.push(name),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h11_references_are_resolved_as_in_rfc_3986() {
        let base = Uri::from_static("http://a/b/c/d;p?q");
        // Section 5.4, without fragments.
        for (reference, url) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
        ] {
            assert_eq!(resolve_reference(&base, reference).unwrap(), url, "{reference}");
        }
        let bare = Uri::from_static("http://a?q");
        assert_eq!(resolve_reference(&bare, "g").unwrap(), "http://a/g");
    }
}
