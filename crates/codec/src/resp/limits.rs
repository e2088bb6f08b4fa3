//! Limits of RESP messages.

/// How large a RESP message may be. What exceeds a limit is an error before it is kept.
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
    /// The bytes of a message with everything in it. Default: 16 MiB.
    pub message: usize,
    /// The bytes of one bulk string. Default: 8 MiB.
    pub bulk: usize,
    /// The bytes of a simple string, a simple error, a number, or an inline command. Default: 64 KiB, as in Redis.
    pub line: usize,
    /// The values in a message, at all depths together; the arguments of a command. Default: 131,072.
    pub elements: usize,
    /// How many arrays, maps and the like may be within each other; never more than
    /// [`MAX_DEPTH`](Self::MAX_DEPTH). Default: 32.
    pub depth: usize,
}

impl RespLimits {
    /// The deepest nesting there can be: values are made, and dropped, by recursion.
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
