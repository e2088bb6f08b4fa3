//! Limits of what a peer may send.

/// The limits of received frames and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebSocketLimits {
    pub(crate) max_frame: u64,
    pub(crate) max_message: u64,
}

impl WebSocketLimits {
    /// The most bytes of a message unless set: 1 MiB.
    pub const DEFAULT_MAX_MESSAGE: u64 = 1024 * 1024;

    /// Sets the most bytes of a message, after decompression. In a connection that reads parts, it limits the sum of the
    /// parts of a message, and may be `u64::MAX`.
    #[must_use]
    pub fn max_message(mut self, bytes: u64) -> Self {
        self.max_message = bytes;
        self
    }

    /// Sets the most bytes of the payload of a frame, as sent. The same as a message unless set.
    #[must_use]
    pub fn max_frame(mut self, bytes: u64) -> Self {
        self.max_frame = bytes;
        self
    }
}

impl Default for WebSocketLimits {
    fn default() -> Self {
        Self { max_frame: u64::MAX, max_message: Self::DEFAULT_MAX_MESSAGE }
    }
}
