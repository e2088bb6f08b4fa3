//! The cancelled timers that are still in the wheel.
//!
//! A cancel on the loop drops the closure at once; taking the timer out of its list can wait. Taking it out
//! needs memory that is seldom in the cache: the timer's links and body, then the links of its neighbours. A
//! cancel that waited for these would take two to three times as long. So cancelled timers are recorded here,
//! their memory is prefetched while the caller goes on, and they are taken out together.

/// How many timers are recorded before they are taken out: enough time for their memory to arrive, few enough
/// to be still in the cache (64 × 128 bytes = 8 KiB).
const BATCH: usize = 64;

/// How many timers are prefetched at a time. Finding a timer's memory may itself miss the cache; for several
/// timers side by side that is one wait.
const GROUP: usize = 16;

/// The slots of cancelled timers. See the module's documentation.
#[derive(Debug)]
pub(super) struct CancelledTimers {
    slots: [u32; BATCH],
    len: usize,
}

impl CancelledTimers {
    pub(super) fn new() -> Self {
        Self { slots: [0; BATCH], len: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Records a timer; there must be room. Returns whether a group is complete.
    #[inline]
    pub(super) fn record(&mut self, slot: u32) -> bool {
        self.slots[self.len] = slot;
        self.len += 1;
        self.len.is_multiple_of(GROUP)
    }

    /// Returns the group that was just completed, and the one before.
    pub(super) fn last_groups(&self) -> (&[u32], &[u32]) {
        let (before, last) = self.slots[..self.len].split_at(self.len - GROUP);
        (last, &before[before.len().saturating_sub(GROUP)..])
    }

    /// Takes all recorded slots.
    pub(super) fn take(&mut self) -> impl Iterator<Item = u32> + use<> {
        let slots = self.slots;
        slots.into_iter().take(std::mem::take(&mut self.len))
    }
}
