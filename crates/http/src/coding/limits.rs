//! Limits of decoding: size, ratio, window, layers.

use crate::content::content_coding::ContentCoding;
use crate::content::decode_error::ContentDecodeError;

/// Limits of decoding a body. Exceeding one is an error before more is stored.
///
/// ```
/// use waterwheel_http::DecodeLimits;
///
/// let limits = DecodeLimits { size: 1024 * 1024, ..DecodeLimits::default() };
/// # let _ = limits;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Maximum size of the decoded body in bytes, and of what is between two layers. Default: 16 MiB.
    pub size: u64,
    /// Maximum of decoded bytes for each byte received. Default: 100; text reaches 5 to 20, deflate can reach 1,032 and
    /// brotli and zstd several 10,000. Checked while bytes arrive, so a body may be refused for its beginning alone.
    pub ratio: u64,
    /// Decoded bytes that are not subject to the ratio, so that a small body of zeros passes. Default: 64 KiB.
    pub ratio_grace: u64,
    /// Maximum window of brotli and zstd as a power of two, which is the decoder's memory: 10 to 24, others are brought
    /// into this range. Default: 24, 16 MiB, which every brotli stream of RFC 7932 keeps. For zstd at most
    /// [`MAX_ZSTD_WINDOW_LOG`](Self::MAX_ZSTD_WINDOW_LOG) counts.
    pub window_log: u8,
}

impl DecodeLimits {
    /// The largest window of zstd as a content coding, 8 MiB (RFC 9659, section 3).
    pub const MAX_ZSTD_WINDOW_LOG: u8 = 23;
    /// The largest window of brotli, 16 MiB; the extension "large window" is refused.
    pub const MAX_BROTLI_WINDOW_LOG: u8 = 24;
    /// Codings in one Content-Encoding that are decoded, `identity` not counted. Two are enough for every honest sender;
    /// each layer multiplies the ratio that a few bytes can reach, and costs a decoder's memory.
    pub const MAX_LAYERS: usize = 2;

    /// Returns the largest window of a coding within these limits.
    pub(crate) fn window_log_of(&self, coding: ContentCoding) -> u8 {
        let most = match coding {
            ContentCoding::Gzip | ContentCoding::Deflate => return 15,
            ContentCoding::Brotli => Self::MAX_BROTLI_WINDOW_LOG,
            ContentCoding::Zstd => Self::MAX_ZSTD_WINDOW_LOG,
        };
        self.window_log.clamp(10, most)
    }

    /// Checks the decoded bytes of one layer so far against the bytes received for the whole body so far.
    pub(crate) fn check(&self, decoded: u64, encoded: u64) -> Result<(), ContentDecodeError> {
        if decoded > self.size {
            return Err(ContentDecodeError::TooLarge { limit: self.size });
        }
        if decoded > self.ratio_grace && decoded > encoded.saturating_mul(self.ratio) {
            return Err(ContentDecodeError::Ratio { decoded, encoded, limit: self.ratio });
        }
        Ok(())
    }
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { size: 16 * 1024 * 1024, ratio: 100, ratio_grace: 64 * 1024, window_log: 24 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h09_size_and_ratio_are_checked_to_the_byte() {
        let limits = DecodeLimits { size: 1000, ratio: 10, ratio_grace: 100, window_log: 24 };
        assert_eq!(limits.check(1000, 100), Ok(()));
        assert_eq!(limits.check(1001, 1000), Err(ContentDecodeError::TooLarge { limit: 1000 }));
        assert_eq!(limits.check(100, 1), Ok(()));
        let error = ContentDecodeError::Ratio { decoded: 101, encoded: 10, limit: 10 };
        assert_eq!(limits.check(101, 10), Err(error));
        assert_eq!(
            error.to_string(),
            "101 bytes were decoded from 10; at most 10 for each are allowed"
        );
        assert_eq!(limits.check(101, 11), Ok(()));
    }

    #[test]
    fn h09_a_window_outside_of_the_codings_range_is_brought_into_it() {
        for (asked, brotli, zstd) in [(0, 10, 10), (18, 18, 18), (24, 24, 23), (31, 24, 23)] {
            let limits = DecodeLimits { window_log: asked, ..DecodeLimits::default() };
            assert_eq!(limits.window_log_of(ContentCoding::Brotli), brotli);
            assert_eq!(limits.window_log_of(ContentCoding::Zstd), zstd);
            assert_eq!(limits.window_log_of(ContentCoding::Gzip), 15);
        }
    }
}
