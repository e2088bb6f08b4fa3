//! Reading in rounds (C09).

use crate::channel::transport::{TransportContext, TransportEvent};
use crate::driver::ReadPlan;
use crate::pipeline::Msg;

/// Whether and how an end reads. Touched on its loop only.
#[derive(Debug, Default)]
pub(super) struct ReadRounds {
    plan: Option<ReadPlan>,
    /// How many reads this round has left; `None` between rounds.
    left: Option<u32>,
}

/// What was there to be read.
pub(super) enum ReadOutcome {
    One(Msg),
    /// The reader will be woken.
    Nothing,
    /// Nothing, for ever.
    End,
}

impl ReadRounds {
    pub(super) fn is_on(&self) -> bool {
        self.plan.is_some()
    }

    /// Turns reading on or off.
    pub(super) fn set(&mut self, up: &TransportContext, plan: Option<ReadPlan>) {
        let begins = self.plan.is_none() && plan.is_some();
        self.plan = plan;
        if begins {
            up.wake();
        }
    }

    /// It leaves its loop: the channel itself tells that the round is over.
    pub(super) fn abort_round(&mut self) {
        self.left = None;
    }

    /// What the channel is told next.
    pub(super) fn next(&mut self, take: impl FnOnce() -> ReadOutcome) -> Option<TransportEvent> {
        if let Some(plan) = self.plan {
            let left = self.left.unwrap_or(plan.max_reads.max(1));
            if left > 0 {
                match take() {
                    ReadOutcome::One(msg) => {
                        self.left = Some(left - 1);
                        return Some(TransportEvent::Read(msg));
                    }
                    ReadOutcome::End if self.left.is_none() => return Some(TransportEvent::Eof),
                    ReadOutcome::End | ReadOutcome::Nothing => {}
                }
            }
        }
        // Turned off in the middle of a round, or at its end.
        self.left.take().map(|_| TransportEvent::ReadComplete)
    }
}
