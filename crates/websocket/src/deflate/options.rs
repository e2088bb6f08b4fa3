//! What an endpoint offers or accepts of permessage-deflate.

/// The options of permessage-deflate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateOptions {
    pub(crate) level: u32,
    pub(crate) min_size: usize,
    pub(crate) context_takeover: bool,
}

impl Default for DeflateOptions {
    fn default() -> Self {
        Self { level: 1, min_size: 64, context_takeover: false }
    }
}
