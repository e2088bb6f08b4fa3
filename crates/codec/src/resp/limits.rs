//! Limits of RESP messages.

/// Limits of RESP messages. Exceeding one is an error before the bytes are stored.
///
/// ```
/// use waterwheel_codec::{RespDecoder, RespLimits};
///
/// let limits = RespLimits { elements: 16, ..RespLimits::default() };
/// let decoder = RespDecoder::new(limits);
/// # let _ = decoder;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespLimits {
    /// Maximum size of a message in bytes. Default: 16 MiB.
    pub message: usize,
    /// Maximum size of a bulk string in bytes. Default: 8 MiB.
    pub bulk: usize,
    /// Maximum length of a simple string, a simple error, a number or an inline command. Default: 64 KiB, as in Redis.
    pub line: usize,
    /// Maximum number of values in a message at all depths, or of arguments of a command. Default: 131,072.
    pub elements: usize,
    /// Maximum nesting depth of aggregates, at most [`MAX_DEPTH`](Self::MAX_DEPTH). Default: 32.
    pub depth: usize,
}

impl RespLimits {
    /// Upper bound of the nesting depth: values are built and dropped recursively.
    pub const MAX_DEPTH: usize = 128;
}

impl Default for RespLimits {
    fn default() -> Self {
        Self {
            message: 16 * 1024 * 1024,
            bulk: 8 * 1024 * 1024,
            line: 64 * 1024,
            elements: 128 * 1024,
            depth: 32,
        }
    }
}
