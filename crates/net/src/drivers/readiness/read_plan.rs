//! When a socket is read and how often, for streams, listeners and datagram sockets.

use std::num::NonZeroU32;

use waterwheel_channel::driver::ReadPlan;

use crate::drivers::selector::ReadyFlags;

/// Readiness for which a read returns something: data, the end of the stream, or an error.
pub(super) const READ_EVENTS: ReadyFlags =
    ReadyFlags::READ.or(ReadyFlags::READ_END).or(ReadyFlags::HANG_UP).or(ReadyFlags::ERROR);

/// The maximum number of steps in a round besides its reads: one each for `Connected`, `Wrote`, `ReadComplete`,
/// `Eof` and `Failed`, and three that may produce no event.
const OTHER_STEPS: u32 = 8;

/// Returns the maximum number of steps in a round of a socket with this plan.
pub(super) fn max_steps(plan: Option<PackedReadPlan>) -> u32 {
    plan.map_or(0, |plan| plan.max_reads).saturating_add(OTHER_STEPS)
}

/// A [`ReadPlan`] in one machine word: at least one read per round, of at least one byte.
#[derive(Clone, Copy)]
pub(super) struct PackedReadPlan {
    pub(super) max_reads: u32,
    size: NonZeroU32,
}

impl PackedReadPlan {
    pub(super) fn of(plan: ReadPlan) -> Self {
        // A read of zero bytes would look like the end of the stream, and would lose a datagram.
        let size = u32::try_from(plan.size.min(ReadPlan::MAX_SIZE)).ok().and_then(NonZeroU32::new);
        Self { max_reads: plan.max_reads.max(1), size: size.unwrap_or(NonZeroU32::MIN) }
    }

    #[inline]
    pub(super) fn size(self) -> usize {
        self.size.get() as usize
    }
}
