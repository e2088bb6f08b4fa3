//! Rounds of reads (C09).

use crate::channel::transport::{TransportContext, TransportEvent};
use crate::driver::ReadPlan;
use crate::pipeline::Msg;

/// The read state of one end. Used on its loop only.
#[derive(Debug, Default)]
pub(super) struct ReadRounds {
    plan: Option<ReadPlan>,
    /// Reads left in this round; `None` between rounds.
    left: Option<u32>,
}

/// The result of a read.
pub(super) enum LocalReadOutcome {
    Message(Msg),
    /// Nothing to read; the reader will be woken.
    Empty,
    /// The end of the stream.
    End,
}

impl ReadRounds {
    pub(super) fn is_on(&self) -> bool {
        self.plan.is_some()
    }

    /// Turns reading on or off.
    pub(super) fn set(&mut self, context: &TransportContext, plan: Option<ReadPlan>) {
        let begins = self.plan.is_none() && plan.is_some();
        self.plan = plan;
        if begins {
            context.wake();
        }
    }

    /// Aborts the round because the channel is deregistered; the channel itself announces its end.
    pub(super) fn abort_round(&mut self) {
        self.left = None;
    }

    /// Returns the next event for the channel.
    pub(super) fn next(
        &mut self,
        take: impl FnOnce() -> LocalReadOutcome,
    ) -> Option<TransportEvent> {
        if let Some(plan) = self.plan {
            let left = self.left.unwrap_or(plan.max_reads.max(1));
            if left > 0 {
                match take() {
                    LocalReadOutcome::Message(msg) => {
                        self.left = Some(left - 1);
                        return Some(TransportEvent::Read(msg));
                    }
                    LocalReadOutcome::End if self.left.is_none() => {
                        return Some(TransportEvent::Eof);
                    }
                    LocalReadOutcome::End | LocalReadOutcome::Empty => {}
                }
            }
        }
        // Reading was turned off in the middle of a round, or the round is over.
        self.left.take().map(|_| TransportEvent::ReadComplete)
    }
}
