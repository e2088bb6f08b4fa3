//! Files that lie compressed beside the original: which of them a request accepts, by `Accept-Encoding`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use http::HeaderMap;

use crate::content::accept_encoding::AcceptEncoding;
use crate::content::content_coding::ContentCoding;

/// The codings that files lie ready in, the smallest files first, and what is added to the original's name.
const PRECOMPRESSED: [(ContentCoding, &str); 3] =
    [(ContentCoding::Brotli, ".br"), (ContentCoding::Zstd, ".zst"), (ContentCoding::Gzip, ".gz")];

/// A compressed file that may be sent in place of the original.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrecompressedSibling {
    pub(crate) coding: ContentCoding,
    suffix: &'static str,
}

impl PrecompressedSibling {
    /// Returns the path of the compressed file beside the original: `app.js.br`.
    pub(crate) fn path_beside(self, original: &Path) -> PathBuf {
        let mut name = OsString::from(original);
        name.push(self.suffix);
        PathBuf::from(name)
    }
}

/// Returns the siblings in codings that a request accepts and does not like less than the original: those of the greatest
/// weight first, and the smallest files first among equals.
pub(crate) fn accepted_siblings(
    headers: &HeaderMap,
) -> impl Iterator<Item = PrecompressedSibling> + use<> {
    let accept = AcceptEncoding::from_headers(headers);
    let mut accepted = PRECOMPRESSED
        .map(|(coding, suffix)| (accept.weight(coding), PrecompressedSibling { coding, suffix }));
    accepted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let least = accept.identity_weight().unwrap_or(0).max(1);
    accepted.into_iter().filter(move |(weight, _)| *weight >= least).map(|(_, sibling)| sibling)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::ACCEPT_ENCODING;

    use super::*;

    fn accepted(lines: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_static(line));
        }
        let names = accepted_siblings(&headers).map(|sibling| sibling.coding.name());
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn h08_precompressed_files_are_chosen_by_weight() {
        let rows: [(&[&'static str], &str); 24] = [
            (&[], ""),
            (&[""], ""),
            (&["gzip"], "gzip"),
            (&["x-gzip"], "gzip"),
            (&["GZip"], "gzip"),
            (&["gzip, deflate, br, zstd"], "br zstd gzip"),
            (&["gzip;q=1.0, br;q=0.5"], "gzip br"),
            (&["gzip; q=0.001"], "gzip"),
            (&["gzip;q=0"], ""),
            (&["gzip;q=0.000, br"], "br"),
            (&["gzip", "br"], "br gzip"),
            (&["*"], "br zstd gzip"),
            (&["*, br;q=0"], "zstd gzip"),
            (&["*;q=0, gzip"], "gzip"),
            (&["identity"], ""),
            (&["identity, gzip"], "gzip"),
            (&["identity, gzip;q=0.9"], ""),
            (&["identity;q=0.5, gzip;q=0.9, br;q=0.4"], "gzip"),
            (&["identity;q=0, br;q=0.1"], "br"),
            (&["gzip;q=2, br;q=1.001, zstd;q=.5"], ""),
            (&["gzip;q=0.0001, br;q=a, zstd;q="], ""),
            (&["gzip;level=9, br;q"], ""),
            (&["gzip;q=1., br;Q=0.5"], "gzip br"),
            (&[",, gzip ,"], "gzip"),
        ];
        for (lines, expected) in rows {
            assert_eq!(accepted(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn h08_precompressed_files_lie_beside_the_original() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("*"));
        let siblings = accepted_siblings(&headers);
        let paths: Vec<_> = siblings.map(|it| it.path_beside(Path::new("a/b.js"))).collect();
        assert_eq!(paths, ["a/b.js.br", "a/b.js.zst", "a/b.js.gz"].map(PathBuf::from));
    }
}
