//! Decides when the loops of a group that drain together are all idle (L11).
//!
//! A loop without work may receive work from another loop that still has some. Therefore the loops end together, and
//! only after each has confirmed that it is still idle.
//!
//! ```text
//!             no work left                    asked to confirm, still no work
//!    Busy ────────────────────► Idle ──────────────────────────────────────► Confirmed
//!      ▲                          │ ▲                                            │
//!      └────── work arrives ──────┘ └──────── another loop is busy again ────────┤
//!      └────────────────────────── work arrives ─────────────────────────────────┘
//!
//!    all Idle: each loop is asked to confirm, by a command      all Confirmed: the drain is complete
//! ```
//!
//! The command is sent when the last loop has become idle, and runs after all commands sent before. So work that
//! was submitted to any loop before that loop's last channel became idle, or its last hold was released, has run when
//! the loop confirms, even if it added no pending bytes. Work submitted later is new, and may be too late, as with
//! any shutdown.

use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_executor::CommandSender;

use crate::event_loop::command::LoopCommand;

/// The state that the loops of one drain share. Each loop votes for itself, from its own thread. No command is sent
/// while the votes are locked.
pub(crate) struct DrainConsensus {
    votes: Mutex<DrainVotes>,
    loops: Vec<CommandSender<LoopCommand>>,
}

impl DrainConsensus {
    /// Creates a consensus among these loops. Returns a voter for each, in order.
    pub(crate) fn voters_for(
        loops: Vec<CommandSender<LoopCommand>>,
    ) -> impl Iterator<Item = DrainVoter> {
        let votes = Mutex::new(DrainVotes::new(loops.len()));
        let consensus = Arc::new(Self { votes, loops });
        (0..consensus.loops.len())
            .map(move |index| DrainVoter { consensus: consensus.clone(), index })
    }

    /// Changes the votes, then sends the confirmation round that follows from the change, if any, to all loops that
    /// still vote. Returns whether the drain is complete.
    fn update(&self, apply: impl FnOnce(&mut DrainVotes) -> Option<ConfirmationRound>) -> bool {
        let mut votes = self.votes.lock().unwrap_or_else(PoisonError::into_inner);
        let round = apply(&mut votes);
        let asked = round.map(|round| (round, votes.voters()));
        let is_complete = votes.is_complete;
        drop(votes);
        if let Some((round, voters)) = asked {
            for index in voters {
                // A terminated loop refuses the command: its voter is about to be dropped.
                let look = LoopCommand::new(move |here| here.request_confirmation(round));
                let _ = self.loops[index].send(look);
            }
        }
        is_complete
    }
}

/// The vote of one loop. Once the voter is dropped, the other loops no longer wait for this loop.
pub(crate) struct DrainVoter {
    consensus: Arc<DrainConsensus>,
    index: usize,
}

impl DrainVoter {
    /// Votes that the loop has work left.
    pub(crate) fn vote_busy(&self) {
        self.consensus.update(|votes| votes.set_busy(self.index));
    }

    /// Votes that the loop is idle, as an answer to the given confirmation round if it was asked. Returns whether the
    /// drain is complete.
    pub(crate) fn vote_idle(&self, asked: Option<ConfirmationRound>) -> bool {
        self.consensus.update(|votes| votes.set_idle(self.index, asked))
    }
}

impl Drop for DrainVoter {
    fn drop(&mut self) {
        self.consensus.update(|votes| votes.set_left(self.index));
    }
}

/// The number of a confirmation round. Answers to an earlier round do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConfirmationRound(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainVote {
    Busy,
    Idle,
    Confirmed,
    /// The loop ended by itself and votes no more.
    Left,
}

struct DrainVotes {
    votes: Vec<DrainVote>,
    /// The last confirmation round, and whether its answers are still awaited.
    round: ConfirmationRound,
    is_confirming: bool,
    is_complete: bool,
}

impl DrainVotes {
    fn new(loops: usize) -> Self {
        let votes = vec![DrainVote::Busy; loops];
        Self { votes, round: ConfirmationRound(0), is_confirming: false, is_complete: false }
    }

    /// Records that a loop is busy. A complete drain stays complete: the busy loop then continues alone until it is
    /// idle.
    fn set_busy(&mut self, index: usize) -> Option<ConfirmationRound> {
        self.votes[index] = DrainVote::Busy;
        self.is_confirming = false;
        for vote in self.votes.iter_mut().filter(|vote| **vote == DrainVote::Confirmed) {
            *vote = DrainVote::Idle;
        }
        None
    }

    fn set_idle(
        &mut self,
        index: usize,
        asked: Option<ConfirmationRound>,
    ) -> Option<ConfirmationRound> {
        if self.is_confirming && asked == Some(self.round) {
            self.votes[index] = DrainVote::Confirmed;
        } else if self.votes[index] == DrainVote::Busy {
            self.votes[index] = DrainVote::Idle;
        }
        self.next_round()
    }

    fn set_left(&mut self, index: usize) -> Option<ConfirmationRound> {
        self.votes[index] = DrainVote::Left;
        self.next_round()
    }

    /// Returns the indices of the loops that have not left.
    fn voters(&self) -> Vec<usize> {
        (0..self.votes.len()).filter(|index| self.votes[*index] != DrainVote::Left).collect()
    }

    /// Returns the confirmation round to send now: a new round, or the completed one so that each loop learns the
    /// result.
    fn next_round(&mut self) -> Option<ConfirmationRound> {
        let all = |least: DrainVote| self.votes.iter().all(|vote| *vote as u8 >= least as u8);
        if self.is_complete
            || !all(if self.is_confirming { DrainVote::Confirmed } else { DrainVote::Idle })
        {
            return None;
        }
        if self.is_confirming {
            self.is_complete = true;
        } else {
            self.is_confirming = true;
            self.round.0 += 1;
        }
        Some(self.round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Option<ConfirmationRound> = Some(ConfirmationRound(1));
    const SECOND: Option<ConfirmationRound> = Some(ConfirmationRound(2));

    #[test]
    fn l11_idle_loops_are_asked_to_confirm_once() {
        let mut votes = DrainVotes::new(2);
        assert_eq!(votes.set_idle(0, None), None);
        assert_eq!(votes.set_idle(1, None), FIRST);
        assert_eq!(votes.set_idle(1, None), None, "an answer to no round");
        assert_eq!(votes.set_idle(0, FIRST), None);
        assert!(!votes.is_complete);
        assert_eq!(votes.set_idle(1, FIRST), FIRST, "to announce the result");
        assert!(votes.is_complete);
        assert_eq!(votes.set_idle(0, FIRST), None);
    }

    #[test]
    fn l11_a_loop_that_is_busy_again_starts_a_new_round() {
        let mut votes = DrainVotes::new(2);
        assert_eq!([votes.set_idle(0, None), votes.set_idle(1, None)], [None, FIRST]);
        assert_eq!(votes.set_idle(0, FIRST), None);
        votes.set_busy(1);
        assert_eq!(votes.set_idle(0, None), None);
        assert_eq!(votes.set_idle(1, FIRST), SECOND, "answers to the first round no longer count");
        assert_eq!(votes.set_idle(0, FIRST), None);
        assert_eq!(votes.set_idle(1, SECOND), None, "the other loop confirmed an earlier round");
        assert_eq!(votes.set_idle(0, SECOND), SECOND);
        assert!(votes.is_complete);
    }

    #[test]
    fn l11_loops_do_not_wait_for_a_loop_that_has_left() {
        let mut votes = DrainVotes::new(3);
        assert_eq!([votes.set_left(2), votes.set_idle(0, None)], [None, None]);
        assert_eq!(votes.set_left(1), FIRST, "the last busy loop left");
        assert_eq!(votes.set_idle(0, FIRST), FIRST);
        assert!(votes.is_complete);

        let mut votes = DrainVotes::new(2);
        assert_eq!([votes.set_idle(0, None), votes.set_idle(1, None)], [None, FIRST]);
        assert_eq!([votes.set_idle(0, FIRST), votes.set_left(1)], [None, FIRST]);
        assert!(votes.is_complete);
    }

    /// Tries all sequences of seven steps of two loops: the drain is complete only if each loop has confirmed after
    /// the last one became idle.
    #[test]
    fn l11_a_drain_is_complete_only_when_all_loops_confirmed_the_same_round() {
        const STEPS: usize = 7;
        for mut code in 0..6_usize.pow(STEPS as u32) {
            let (mut votes, mut asked) = (DrainVotes::new(2), [None; 2]);
            let mut confirmed = [false; 2];
            for _ in 0..STEPS {
                let (step, index) = (code % 3, code / 3 % 2);
                code /= 6;
                let round = match step {
                    0 => {
                        votes.set_busy(index);
                        (asked, confirmed) = ([None; 2], [false; 2]);
                        None
                    }
                    1 => votes.set_idle(index, None),
                    _ => {
                        let answered = asked[index].take();
                        confirmed[index] |= answered.is_some();
                        votes.set_idle(index, answered)
                    }
                };
                if round.is_some() && !votes.is_complete {
                    (asked, confirmed) = ([round; 2], [false; 2]);
                }
                if votes.is_complete {
                    assert_eq!(confirmed, [true; 2]);
                    break;
                }
            }
        }
    }
}
