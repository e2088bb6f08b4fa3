//! The limits of a message: how much a peer may send.

/// The limits of a message: see the setters for each. A message beyond a limit is refused as a whole.
///
/// ```
/// use waterwheel_http::MessageLimits;
///
/// let limits = MessageLimits::default().max_body_bytes(64 * 1024 * 1024);
/// assert_eq!(limits.head_bytes(), 16 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct MessageLimits {
    head_bytes: usize,
    field_lines: usize,
    body_bytes: u64,
    extension_bytes: usize,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            head_bytes: Self::DEFAULT_HEAD_BYTES,
            field_lines: Self::DEFAULT_FIELD_LINES,
            body_bytes: Self::DEFAULT_BODY_BYTES,
            extension_bytes: Self::DEFAULT_EXTENSION_BYTES,
        }
    }
}

impl MessageLimits {
    /// The default of [`max_head_bytes`](Self::max_head_bytes): room for a dozen cookies.
    pub const DEFAULT_HEAD_BYTES: usize = 16 * 1024;
    /// The default of [`max_field_lines`](Self::max_field_lines).
    pub const DEFAULT_FIELD_LINES: usize = 128;
    /// The default of [`max_body_bytes`](Self::max_body_bytes).
    pub const DEFAULT_BODY_BYTES: u64 = 8 * 1024 * 1024;
    /// The default of [`max_extension_bytes`](Self::max_extension_bytes).
    pub const DEFAULT_EXTENSION_BYTES: usize = 16 * 1024;

    const MOST_HEAD_BYTES: usize = 1 << 30;
    const MOST_FIELD_LINES: usize = 1 << 14;

    /// Sets the largest number of bytes of a head: start line, field lines and line ends. The trailers of a chunked
    /// body have the same limit. A request line that alone exceeds it is answered with 414, everything else with 431. At most 1 GiB.
    pub fn max_head_bytes(mut self, bytes: usize) -> Self {
        self.head_bytes = bytes.min(Self::MOST_HEAD_BYTES);
        self
    }

    /// Sets the largest number of field lines of a head, and of the trailers of a chunked body. More are answered
    /// with 431. At most 16,384, so that a map has room for them.
    pub fn max_field_lines(mut self, lines: usize) -> Self {
        self.field_lines = lines.min(Self::MOST_FIELD_LINES);
        self
    }

    /// Sets the largest number of bytes of a body, decoded from its chunks. A request with a longer one is answered
    /// with 413. `u64::MAX` for none.
    pub fn max_body_bytes(mut self, bytes: u64) -> Self {
        self.body_bytes = bytes;
        self
    }

    /// Sets the largest number of bytes of the chunk extensions of a whole body; leading zeros of chunk sizes count too.
    /// More are answered with 431.
    pub fn max_extension_bytes(mut self, bytes: usize) -> Self {
        self.extension_bytes = bytes;
        self
    }

    /// Returns the largest number of bytes of a head.
    #[must_use]
    pub const fn head_bytes(&self) -> usize {
        self.head_bytes
    }

    /// Returns the largest number of field lines of a head.
    #[must_use]
    pub const fn field_lines(&self) -> usize {
        self.field_lines
    }

    /// Returns the largest number of bytes of a body.
    #[must_use]
    pub const fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Returns the largest number of bytes of the chunk extensions of a body.
    #[must_use]
    pub const fn extension_bytes(&self) -> usize {
        self.extension_bytes
    }
}
