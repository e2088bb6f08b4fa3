//! When a socket is read, and how often: of streams, listeners and datagrams alike.

use std::num::NonZeroU32;

use waterwheel_channel::driver::ReadPlan;

use crate::drivers::selector::ReadyFlags;

/// What a read finds something out by: data, the end, or an error.
pub(super) const READ_EVENTS: ReadyFlags =
    ReadyFlags::READ.or(ReadyFlags::READ_END).or(ReadyFlags::HANG_UP).or(ReadyFlags::ERROR);

/// A round takes at most so many steps others its reads: one each for `Connected`, `Wrote`, `ReadComplete`,
/// `Eof` and `Failed`, and three that may find nothing to say.
const OTHER_STEPS: u32 = 8;

/// Returns how many steps a round of a socket with this plan may take.
pub(super) fn max_steps(plan: Option<PackedReadPlan>) -> u32 {
    plan.map_or(0, |plan| plan.max_reads).saturating_add(OTHER_STEPS)
}

/// A [`ReadPlan`] in one word: at least one read in a round, of at least one byte.
#[derive(Clone, Copy)]
pub(super) struct PackedReadPlan {
    pub(super) max_reads: u32,
    size: NonZeroU32,
}

impl PackedReadPlan {
    pub(super) fn of(plan: ReadPlan) -> Self {
        // A read of nothing would look like the end, and lose a datagram.
        let size = u32::try_from(plan.size.min(ReadPlan::MAX_SIZE)).ok().and_then(NonZeroU32::new);
        Self { max_reads: plan.max_reads.max(1), size: size.unwrap_or(NonZeroU32::MIN) }
    }

    #[inline]
    pub(super) fn size(self) -> usize {
        self.size.get() as usize
    }
}
