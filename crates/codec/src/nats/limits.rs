//! Limits of NATS operations.

/// Limits of NATS operations. Exceeding one is an error before the bytes are stored.
///
/// ```
/// use waterwheel_codec::{NatsDecoder, NatsLimits};
///
/// let limits = NatsLimits { payload: 64 * 1024, ..NatsLimits::default() };
/// let decoder = NatsDecoder::client(limits);
/// # let _ = decoder;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatsLimits {
    /// Maximum length of a line other than INFO and CONNECT, without its line end. Default: 4 KiB, as in nats-server.
    pub control_line: usize,
    /// Maximum length of the lines INFO and CONNECT, without their line ends. Default: 64 KiB.
    pub options: usize,
    /// Maximum size of a payload together with its headers. Default: 1 MiB, as in nats-server.
    pub payload: usize,
    /// Maximum size of the headers of a message. Default: 64 KiB.
    pub headers: usize,
}

impl NatsLimits {
    /// Returns the bytes that an operation may have.
    pub(super) fn operation(&self) -> usize {
        const LINE_END: usize = 2;
        let message = self.control_line.saturating_add(self.payload).saturating_add(2 * LINE_END);
        message.max(self.options.saturating_add(LINE_END))
    }
}

impl Default for NatsLimits {
    fn default() -> Self {
        Self {
            control_line: 4 * 1024,
            options: 64 * 1024,
            payload: 1024 * 1024,
            headers: 64 * 1024,
        }
    }
}
