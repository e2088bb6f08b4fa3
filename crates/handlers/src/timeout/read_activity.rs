//! When a handler last got a message from the peer.

use waterwheel_executor::Nanos;

/// The time of the last read. A read round counts from its end, and a round without a message for the handler does not
/// count, as when a decoder has kept half a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadActivity {
    last: Nanos,
    /// True during a round that has brought a message.
    is_reading: bool,
}

impl ReadActivity {
    /// Begins to measure at `now`.
    pub(crate) fn starting(now: Nanos) -> Self {
        Self { last: now, is_reading: false }
    }

    /// Records a message.
    #[inline]
    pub(crate) fn on_read(&mut self) {
        self.is_reading = true;
    }

    /// Records the end of a round; the clock is read only if the round has brought a message.
    #[inline]
    pub(crate) fn on_read_complete(&mut self, now: impl FnOnce() -> Nanos) {
        if self.is_reading {
            self.is_reading = false;
            self.last = now();
        }
    }

    /// Returns the time of the last read; `None` during a round.
    pub(crate) fn last(&self) -> Option<Nanos> {
        (!self.is_reading).then_some(self.last)
    }
}
