//! Levels and windows of the encoders.

use crate::content::content_coding::ContentCoding;

/// Levels and windows of the encoders.
///
/// The figures are of one core of a shared AMD EPYC, in a release build, for 8 MB of JSON records and 3 MB of source code;
/// they move by a quarter between runs. A step takes in 16 KiB ([`ENCODE_STEP`](super::ENCODE_STEP)); brotli and zstd
/// collect blocks, so that now and then one step does the work of several.
///
/// | coding and level | CPU per MB | size left, JSON and code | longest step |
/// |---|---|---|---|
/// | gzip 1 | 4 ms | 27 %, 36 % | 0.3 ms |
/// | **gzip 4** | 8 to 10 ms | 19 %, 25 % | 0.4 ms |
/// | gzip 6 | 20 to 23 ms | 16 %, 24 % | 0.6 to 1.1 ms |
/// | gzip 9 | 27 to 36 ms | 16 %, 24 % | 0.9 ms |
/// | brotli 2 | 6 to 7 ms | 25 %, 29 % | 0.3 ms |
/// | **brotli 4** | 8 to 10 ms | 21 %, 25 % | 1.9 ms |
/// | brotli 6 | 15 to 19 ms | 23 %, 29 % | 2.8 ms |
/// | brotli 9 | 40 to 44 ms | 15 %, 21 % | 10 ms |
/// | zstd 1 | 2 ms | 20 %, 28 % | 0.3 ms |
/// | **zstd 3** | 2 to 3 ms | 19 %, 25 % | 0.5 ms |
/// | zstd 6 | 7 to 9 ms | 17 %, 23 % | 1.3 ms |
/// | zstd 9 | 11 to 13 ms | 16 %, 22 % | 2.6 ms |
/// | zstd 12 | 22 to 29 ms | 15 %, 22 % | 14 ms |
///
/// The defaults are bold. Gzip 6, the usual default, takes twice the time of gzip 4 for some percent. The levels 5 to 8 of
/// this brotli library compress worse than 4 with these windows.
///
/// ```
/// use waterwheel_http::EncoderOptions;
///
/// let options = EncoderOptions { gzip_level: 1, ..EncoderOptions::default() };
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderOptions {
    /// The level of gzip, 1 to 9. Default: 4.
    pub gzip_level: u32,
    /// The quality of brotli, 0 to 9: 10 and 11 take seconds per megabyte, which no loop can spare. Default: 4.
    pub brotli_quality: u32,
    /// The level of zstd, 1 to 12: above that libzstd takes seconds for some megabytes. Default: 3.
    pub zstd_level: i32,
    /// The window of brotli and zstd as a power of two, 10 to 23; what repeats within it is found. A greater window costs
    /// memory for each body that is being sent. A body of a known length has no larger window than it can use.
    /// Default: 18, 256 KiB.
    pub window_log: u8,
}

impl EncoderOptions {
    /// The range of `window_log`. The upper end is the largest window of zstd as a content coding (RFC 9659).
    const WINDOW_LOG: (i64, i64) = (10, 23);

    /// Checks that each option is in its range.
    pub fn check(&self) -> Result<(), ContentEncodeError> {
        let (window_min, window_max) = Self::WINDOW_LOG;
        let ranges = [
            ("gzip_level", i64::from(self.gzip_level), 1, 9),
            ("brotli_quality", i64::from(self.brotli_quality), 0, 9),
            ("zstd_level", i64::from(self.zstd_level), 1, 12),
            ("window_log", i64::from(self.window_log), window_min, window_max),
        ];
        match ranges.into_iter().find(|(_, value, min, max)| value < min || value > max) {
            Some((name, value, min, max)) => {
                Err(ContentEncodeError::Option { name, value, min, max })
            }
            None => Ok(()),
        }
    }

    /// Returns the window for a body: the smallest that holds all of it, if its length is known.
    pub(crate) fn window_log_for(&self, length: Option<u64>) -> u8 {
        let enough = length.map_or(u32::MAX, |length| u64::BITS - length.leading_zeros());
        let (min, _) = Self::WINDOW_LOG;
        u32::from(self.window_log).min(enough).max(min as u32) as u8
    }
}

impl Default for EncoderOptions {
    fn default() -> Self {
        Self { gzip_level: 4, brotli_quality: 4, zstd_level: 3, window_log: 18 }
    }
}

/// The reason why a body cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentEncodeError {
    /// The coding's feature is not compiled in, or the coding is `deflate`.
    #[error(
        "the coding {coding} cannot be sent: its feature is not compiled in, or it is for decoding only"
    )]
    NotAvailable {
        /// The coding asked for.
        coding: ContentCoding,
    },
    /// An option is out of its range.
    #[error("{name} is {value}; {min} to {max} are allowed")]
    Option {
        /// The option's name.
        name: &'static str,
        /// The value given.
        value: i64,
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// The library failed; it has no memory left.
    #[error("encoding by {coding} failed: {reason}")]
    Library {
        /// The coding of the stream.
        coding: ContentCoding,
        /// The library's error.
        reason: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h09_an_option_out_of_its_range_is_refused_with_the_range() {
        let default = EncoderOptions::default();
        assert_eq!(default.check(), Ok(()));
        for (options, text) in [
            (EncoderOptions { gzip_level: 0, ..default }, "gzip_level is 0; 1 to 9 are allowed"),
            (EncoderOptions { gzip_level: 10, ..default }, "gzip_level is 10; 1 to 9 are allowed"),
            (
                EncoderOptions { brotli_quality: 11, ..default },
                "brotli_quality is 11; 0 to 9 are allowed",
            ),
            (EncoderOptions { zstd_level: 13, ..default }, "zstd_level is 13; 1 to 12 are allowed"),
            (EncoderOptions { zstd_level: -1, ..default }, "zstd_level is -1; 1 to 12 are allowed"),
            (EncoderOptions { window_log: 9, ..default }, "window_log is 9; 10 to 23 are allowed"),
            (
                EncoderOptions { window_log: 24, ..default },
                "window_log is 24; 10 to 23 are allowed",
            ),
        ] {
            assert_eq!(options.check().unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn h09_the_window_of_a_body_of_known_length_is_no_larger_than_the_body_needs() {
        let options = EncoderOptions::default();
        for (length, window_log) in [
            (None, 18),
            (Some(0), 10),
            (Some(1023), 10),
            (Some(1024), 11),
            (Some(100_000), 17),
            (Some(u64::MAX), 18),
        ] {
            assert_eq!(options.window_log_for(length), window_log, "{length:?}");
        }
    }
}
