//! Files that lie compressed beside the original: which of them a request accepts, by `Accept-Encoding`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};

/// A content coding that files lie ready in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrecompressedCoding {
    Brotli,
    Zstd,
    Gzip,
}

impl PrecompressedCoding {
    /// All codings, the smallest files first.
    const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// Returns the value of `Content-Encoding`.
    pub(crate) fn token(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        })
    }

    /// Returns the path of the compressed file beside the original: `app.js.br`.
    pub(crate) fn sibling_of(self, path: &Path) -> PathBuf {
        let mut name = OsString::from(path);
        name.push(match self {
            Self::Brotli => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        });
        PathBuf::from(name)
    }

    fn by_token(token: &str) -> Option<Self> {
        let is = |wanted: &str| token.eq_ignore_ascii_case(wanted);
        match () {
            () if is("br") => Some(Self::Brotli),
            () if is("zstd") => Some(Self::Zstd),
            () if is("gzip") || is("x-gzip") => Some(Self::Gzip),
            () => None,
        }
    }
}

/// Returns the codings that a request accepts and does not like less than the original: those of the greatest weight
/// first, and the smallest files first among equals. Elements that cannot be read are skipped.
pub(crate) fn accepted_codings(
    headers: &HeaderMap,
) -> impl Iterator<Item = PrecompressedCoding> + use<> {
    let mut weights = [None; 3];
    let (mut others, mut original) = (None, None);
    let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    for element in lines.flat_map(|line| line.split(',')) {
        let Some((token, weight)) = parse_element(element) else { continue };
        if let Some(coding) = PrecompressedCoding::by_token(token) {
            weights[coding as usize] = Some(weight);
        } else if token == "*" {
            others = Some(weight);
        } else if token.eq_ignore_ascii_case("identity") {
            original = Some(weight);
        }
    }
    let mut accepted = PrecompressedCoding::ALL
        .map(|coding| (weights[coding as usize].or(others).unwrap_or(0), coding));
    accepted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let least = original.unwrap_or(0).max(1);
    accepted.into_iter().filter(move |(weight, _)| *weight >= least).map(|(_, coding)| coding)
}

/// Parses `coding` or `coding;q=0.5`, and returns the weight in thousandths.
fn parse_element(element: &str) -> Option<(&str, u16)> {
    let Some((token, parameter)) = element.split_once(';') else {
        return Some((element.trim_ascii(), 1000));
    };
    let (name, value) = parameter.trim_ascii().split_once('=')?;
    let weight = if name.eq_ignore_ascii_case("q") { parse_weight(value)? } else { return None };
    Some((token.trim_ascii(), weight))
}

/// Parses a weight by the grammar of RFC 9110 section 12.4.2: from `0` to `1`, with up to three decimals.
fn parse_weight(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{decimals:0<3}").parse().ok()?;
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(lines: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_static(line));
        }
        let tokens = accepted_codings(&headers).map(|coding| coding.token());
        tokens.map(|token| String::from(token.to_str().unwrap())).collect::<Vec<_>>().join(" ")
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
        let names = PrecompressedCoding::ALL.map(|coding| coding.sibling_of(Path::new("a/b.js")));
        assert_eq!(names, ["a/b.js.br", "a/b.js.zst", "a/b.js.gz"].map(PathBuf::from));
    }
}
