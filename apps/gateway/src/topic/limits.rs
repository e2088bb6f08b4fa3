//! The limits of names that clients may choose.

/// The limits of topics and filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicLimits {
    /// Maximum length in bytes.
    pub max_bytes: usize,
    /// Maximum number of segments.
    pub max_segments: usize,
    /// Maximum number of segments `*` in a filter. It limits the work for each publication: for a topic of 16 segments, filters
    /// with at most 3 have at most 1 + 16 + 120 + 560 beginnings of each length; without a limit, they had 65,536.
    pub max_wildcards: usize,
}

impl TopicLimits {
    /// No limits: for names that other gateways have accepted, whose limits may be greater.
    pub const UNLIMITED: Self =
        Self { max_bytes: usize::MAX, max_segments: usize::MAX, max_wildcards: usize::MAX };
}

impl Default for TopicLimits {
    fn default() -> Self {
        // A path of a few names; what clients make the gateway hold per topic is dominated by its history.
        Self { max_bytes: 255, max_segments: 16, max_wildcards: 3 }
    }
}
