//! The content codings by name.

use std::fmt;

/// A content coding of RFC 9110, section 8.4.1, and the RFCs of brotli (7932) and zstd (8878, 9659).
///
/// All four exist in every build; the features `gzip`, `brotli` and `zstd` of the crate decide which are
/// [compiled in](Self::is_available). `identity`, which encodes nothing, is the absence of a coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentCoding {
    /// `gzip`, also called `x-gzip`: RFC 1952. Feature `gzip`.
    Gzip,
    /// `deflate`: the zlib format of RFC 1950. Feature `gzip`. For decoding only: some peers read a `deflate` body as
    /// zlib and others as raw deflate, so nothing sensible can be sent. Raw deflate is refused as corrupt.
    Deflate,
    /// `br`: RFC 7932. Feature `brotli`.
    Brotli,
    /// `zstd`: RFC 8878. Feature `zstd`.
    Zstd,
}

impl ContentCoding {
    /// All codings, those that are not compiled in as well.
    pub const ALL: [Self; 4] = [Self::Gzip, Self::Deflate, Self::Brotli, Self::Zstd];

    /// Returns the coding's name in header fields.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the coding of this name, in upper or lower case; `x-gzip` is `gzip`.
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name()))
    }

    /// True if the coding's library is compiled in: its bodies can be decoded.
    pub fn is_available(self) -> bool {
        match self {
            Self::Gzip | Self::Deflate => cfg!(feature = "gzip"),
            Self::Brotli => cfg!(feature = "brotli"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// True if bodies can be encoded: the coding is available and is not [`Deflate`](Self::Deflate).
    pub fn can_encode(self) -> bool {
        self.is_available() && self != Self::Deflate
    }
}

impl fmt::Display for ContentCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::ContentCoding;

    #[test]
    fn h09_a_coding_is_found_by_its_name_in_any_case() {
        for coding in ContentCoding::ALL {
            assert_eq!(ContentCoding::from_name(coding.name()), Some(coding));
            assert_eq!(ContentCoding::from_name(&coding.name().to_ascii_uppercase()), Some(coding));
        }
        assert_eq!(ContentCoding::from_name("X-GZip"), Some(ContentCoding::Gzip));
        for name in ["identity", "*", "", "gzip ", "compress", "brotli", "x-br"] {
            assert_eq!(ContentCoding::from_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn h09_deflate_is_decoded_and_never_sent() {
        assert!(ContentCoding::Deflate.is_available());
        assert!(!ContentCoding::Deflate.can_encode());
        assert!(ContentCoding::Gzip.can_encode());
    }
}
