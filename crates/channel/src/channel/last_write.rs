//! When something was last written, for whoever asks.
//!
//! The clock is looked at only if somebody has asked: all others pay a comparison per write, and a word.

use std::cell::Cell;

use waterwheel_executor::Nanos;

use super::core::ChannelCore;

/// When the transport last took something.
pub(super) struct LastWrite(Cell<Nanos>);

/// Nobody has asked.
const NOT_NOTED: Nanos = Nanos::MAX;
/// Nothing was written since somebody has.
const NONE: Nanos = Nanos(u64::MAX - 1);

impl Default for LastWrite {
    fn default() -> Self {
        Self(Cell::new(NOT_NOTED))
    }
}

impl ChannelCore {
    /// The transport has taken so much.
    #[inline]
    pub(super) fn note_write(&self, taken: usize) {
        let last = &self.last_write.0;
        if taken > 0 && last.get() != NOT_NOTED {
            last.set(self.here.now());
        }
    }

    /// When the transport last took something; noted from the first time that this is asked.
    pub(crate) fn last_write(&self) -> Option<Nanos> {
        let last = &self.last_write.0;
        if last.get() == NOT_NOTED {
            last.set(NONE);
        }
        Some(last.get()).filter(|last| *last != NONE)
    }
}
