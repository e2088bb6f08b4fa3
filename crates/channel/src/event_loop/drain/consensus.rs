//! When the loops of a group that drain together have nothing left (L11).
//!
//! A loop that has nothing left may be given something by another that has: so they end together, and
//! only after a second look.
//!
//! ```text
//!             nothing left                    asked, and still nothing
//!    Busy ────────────────────► Clear ─────────────────────────────────► Sure
//!      ▲                          │ ▲                                      │
//!      └────── something ─────────┘ └──── somebody else has something ─────┤
//!      └────────────────────────── something ──────────────────────────────┘
//!
//!    all Clear: everybody is asked to look again, by a command      all Sure: it is over
//! ```
//!
//! The command comes behind whatever was queued before, and is sent when the last loop has found
//! nothing. So what was submitted to any of the loops before one of them found its last channel idle, or
//! its last guard gone, is seen at that loop's second look, even if it weighs nothing: it has been run by
//! then. What comes after that is new, and may come too late, as at any time.

use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_executor::CommandSender;

use crate::event_loop::command::LoopCommand;

/// What the loops that drain together share. Each votes for itself, from its own thread; nothing is sent
/// while the votes are locked.
pub(crate) struct DrainConsensus {
    votes: Mutex<DrainVotes>,
    loops: Vec<CommandSender<LoopCommand>>,
}

impl DrainConsensus {
    /// Of these loops: a seat for each, in order.
    pub(crate) fn among(
        loops: Vec<CommandSender<LoopCommand>>,
    ) -> impl Iterator<Item = DrainVoter> {
        let votes = Mutex::new(DrainVotes::new(loops.len()));
        let agreement = Arc::new(Self { votes, loops });
        (0..agreement.loops.len()).map(move |at| DrainVoter { agreement: agreement.clone(), at })
    }

    /// Changes the votes, and asks those who vote what is to be asked then. Whether it is over.
    fn change(&self, change: impl FnOnce(&mut DrainVotes) -> Option<ConfirmationRound>) -> bool {
        let mut votes = self.votes.lock().unwrap_or_else(PoisonError::into_inner);
        let question = change(&mut votes);
        let asked = question.map(|question| (question, votes.voters()));
        let over = votes.over;
        drop(votes);
        if let Some((question, voters)) = asked {
            for at in voters {
                // Refused by a loop that is over: it is about to leave its seat.
                let look = LoopCommand::new(move |here| here.look_when_settled(question));
                let _ = self.loops[at].send(look);
            }
        }
        over
    }
}

/// A loop's part in an agreement. Dropped, nobody waits for it any more.
pub(crate) struct DrainVoter {
    agreement: Arc<DrainConsensus>,
    at: usize,
}

impl DrainVoter {
    /// The loop has something left.
    pub(crate) fn is_busy(&self) {
        self.agreement.change(|votes| votes.busy(self.at));
    }

    /// The loop has nothing left; if it was asked, what. Whether it is over.
    pub(crate) fn is_clear(&self, asked: Option<ConfirmationRound>) -> bool {
        self.agreement.change(|votes| votes.clear(self.at, asked))
    }
}

impl Drop for DrainVoter {
    fn drop(&mut self) {
        self.agreement.change(|votes| votes.leave(self.at));
    }
}

/// Everybody is to look: told apart from those before, whose answers no longer count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConfirmationRound(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainVote {
    Busy,
    Idle,
    Confirmed,
    /// It has ended by itself, and has nothing to say any more.
    Left,
}

struct DrainVotes {
    each: Vec<DrainVote>,
    /// The last question, and whether it is still open.
    question: ConfirmationRound,
    open: bool,
    over: bool,
}

impl DrainVotes {
    fn new(loops: usize) -> Self {
        let each = vec![DrainVote::Busy; loops];
        Self { each, question: ConfirmationRound(0), open: false, over: false }
    }

    /// Once it is over it stays so: that loop goes on alone until it has nothing left.
    fn busy(&mut self, at: usize) -> Option<ConfirmationRound> {
        self.each[at] = DrainVote::Busy;
        self.open = false;
        for vote in self.each.iter_mut().filter(|vote| **vote == DrainVote::Confirmed) {
            *vote = DrainVote::Idle;
        }
        None
    }

    fn clear(&mut self, at: usize, asked: Option<ConfirmationRound>) -> Option<ConfirmationRound> {
        if self.open && asked == Some(self.question) {
            self.each[at] = DrainVote::Confirmed;
        } else if self.each[at] == DrainVote::Busy {
            self.each[at] = DrainVote::Idle;
        }
        self.next()
    }

    fn leave(&mut self, at: usize) -> Option<ConfirmationRound> {
        self.each[at] = DrainVote::Left;
        self.next()
    }

    /// Those who have not left.
    fn voters(&self) -> Vec<usize> {
        (0..self.each.len()).filter(|at| self.each[*at] != DrainVote::Left).collect()
    }

    /// What everybody is to be asked, or told, now.
    fn next(&mut self) -> Option<ConfirmationRound> {
        let all = |least: DrainVote| self.each.iter().all(|vote| *vote as u8 >= least as u8);
        if self.over || !all(if self.open { DrainVote::Confirmed } else { DrainVote::Idle }) {
            return None;
        }
        if self.open {
            self.over = true;
        } else {
            self.open = true;
            self.question.0 += 1;
        }
        Some(self.question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Option<ConfirmationRound> = Some(ConfirmationRound(1));
    const SECOND: Option<ConfirmationRound> = Some(ConfirmationRound(2));

    #[test]
    fn l11_loops_that_have_nothing_left_are_asked_once_more() {
        let mut votes = DrainVotes::new(2);
        assert_eq!(votes.clear(0, None), None);
        assert_eq!(votes.clear(1, None), FIRST);
        assert_eq!(votes.clear(1, None), None, "it was not asked yet");
        assert_eq!(votes.clear(0, FIRST), None);
        assert!(!votes.over);
        assert_eq!(votes.clear(1, FIRST), FIRST, "to be told");
        assert!(votes.over);
        assert_eq!(votes.clear(0, FIRST), None);
    }

    #[test]
    fn l11_a_loop_that_has_something_again_reopens_the_question() {
        let mut votes = DrainVotes::new(2);
        assert_eq!([votes.clear(0, None), votes.clear(1, None)], [None, FIRST]);
        assert_eq!(votes.clear(0, FIRST), None);
        votes.busy(1);
        assert_eq!(votes.clear(0, None), None);
        assert_eq!(votes.clear(1, FIRST), SECOND, "the first question does not count any more");
        assert_eq!(votes.clear(0, FIRST), None);
        assert_eq!(votes.clear(1, SECOND), None, "the other was sure, but before");
        assert_eq!(votes.clear(0, SECOND), SECOND);
        assert!(votes.over);
    }

    #[test]
    fn l11_nobody_waits_for_a_loop_that_has_left() {
        let mut votes = DrainVotes::new(3);
        assert_eq!([votes.leave(2), votes.clear(0, None)], [None, None]);
        assert_eq!(votes.leave(1), FIRST, "it was the last that was busy");
        assert_eq!(votes.clear(0, FIRST), FIRST);
        assert!(votes.over);

        let mut votes = DrainVotes::new(2);
        assert_eq!([votes.clear(0, None), votes.clear(1, None)], [None, FIRST]);
        assert_eq!([votes.clear(0, FIRST), votes.leave(1)], [None, FIRST]);
        assert!(votes.over);
    }

    /// Whatever three loops do, in any order of up to eight steps: it is over only if each has said,
    /// after the last had nothing left, that it still has nothing.
    #[test]
    fn l11_it_is_over_only_when_all_were_sure_at_the_same_question() {
        const STEPS: usize = 7;
        for mut code in 0..6_usize.pow(STEPS as u32) {
            let (mut votes, mut asked) = (DrainVotes::new(2), [None; 2]);
            let mut sure = [false; 2];
            for _ in 0..STEPS {
                let (step, at) = (code % 3, code / 3 % 2);
                code /= 6;
                let question = match step {
                    0 => {
                        votes.busy(at);
                        (asked, sure) = ([None; 2], [false; 2]);
                        None
                    }
                    1 => votes.clear(at, None),
                    _ => {
                        let answered = asked[at].take();
                        sure[at] |= answered.is_some();
                        votes.clear(at, answered)
                    }
                };
                if question.is_some() && !votes.over {
                    (asked, sure) = ([question; 2], [false; 2]);
                }
                if votes.over {
                    assert_eq!(sure, [true; 2]);
                    break;
                }
            }
        }
    }
}
