//! The limits of names that clients may choose.

/// The limits of topics and filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicLimits {
    /// Maximum length in bytes.
    pub max_bytes: usize,
    /// Maximum number of segments.
    pub max_segments: usize,
}

impl Default for TopicLimits {
    fn default() -> Self {
        // A path of a few names; what clients make the gateway hold per topic is dominated by its history.
        Self { max_bytes: 255, max_segments: 16 }
    }
}
