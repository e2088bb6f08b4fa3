//! The drain of one loop (L11), from the command that begins it to the shutdown that follows.
//!
//! ```text
//!   begin_drain ──► listeners close, channels get Draining ──► every turn: check ──► idle, all confirmed ──► finish
//!                                                                   │                                         ▲
//!                   deadline, by a timer of the loop ───────────────┴─────────────────────────────────────────┤
//!                   a shutdown, requested by anyone ──────────────────────────────────────────────────────────┘
//! ```
//!
//! A loop becomes idle or busy only during a turn, and each turn checks at its end. A change on another thread, such as
//! the release of a hold, sends a command and so causes a turn. The check needs no timer, and a loop that is not
//! draining pays one branch per turn.

use std::cell::RefCell;

use waterwheel_executor::{Nanos, TimerKey};

use crate::base::token::Token;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::consensus::ConfirmationRound;
use crate::event_loop::drain::{DrainRequest, Drained};
use crate::event_loop::local_loop::LocalLoop;

/// The part of the drain that the channel layer performs. Channels are named by their tokens.
pub(crate) trait Drainable {
    /// Begins the drain, which ends at `deadline` at the latest: listeners are closed, all other channels get the
    /// `Draining` event.
    fn begin_drain(&self, deadline: Nanos);

    /// Returns a channel that has work left, for which the drain waits. `last` is the result of the previous call and
    /// is checked first, because that channel usually is still busy.
    fn find_busy(&self, last: Option<Token>) -> Option<Token>;

    /// Returns the number of channels that have work left.
    fn count_busy(&self) -> usize;
}

/// The drain of a loop, if one is active.
#[derive(Default)]
pub(crate) struct CurrentDrain(RefCell<Option<ActiveDrain>>);

/// A drain in progress.
struct ActiveDrain {
    request: DrainRequest,
    timer: Option<TimerKey>,
    /// A channel that was busy at the last check.
    busy: Option<Token>,
    /// True if the last vote of this loop was idle.
    has_voted_idle: bool,
    /// The confirmation round to answer at the next check.
    round: Option<ConfirmationRound>,
}

impl CurrentDrain {
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.0.borrow().is_some()
    }
}

impl LocalLoop {
    /// True while the loop is draining: see [`EventLoop::drain`](crate::EventLoop::drain). The drain begins when the
    /// loop runs its command; channels that are registered by then get the `Draining` event.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.current_drain().is_active() && !self.is_closing()
    }

    pub(crate) fn begin_drain(&self, request: DrainRequest) {
        if self.is_closing() {
            return request
                .finish(Drained::CutShort { channels: self.hosted_channels().count_busy() });
        }
        let deadline = request.deadline;
        let overdue = LoopCommand::new(Self::on_drain_deadline);
        let timer = self.sender().send_at(deadline, overdue).ok();
        let active = ActiveDrain { request, timer, busy: None, has_voted_idle: false, round: None };
        *self.current_drain().0.borrow_mut() = Some(active);
        self.hosted_channels().begin_drain(deadline);
    }

    /// Records a confirmation round: every loop of the group has to confirm that it is idle. Runs as a command, so
    /// earlier commands have run.
    pub(crate) fn request_confirmation(&self, round: ConfirmationRound) {
        if let Some(active) = self.current_drain().0.borrow_mut().as_mut() {
            active.round = Some(round);
        }
    }

    /// Checks at the end of a turn whether the drain is complete.
    #[inline]
    pub(crate) fn check_drain(&self) {
        if self.current_drain().is_active() {
            self.check_completion();
        }
    }

    #[cold]
    fn check_completion(&self) {
        if self.is_closing() {
            return; // The shutdown cuts the drain short.
        }
        let is_complete = match self.current_drain().0.borrow_mut().as_mut() {
            Some(active) => active.vote(self),
            None => false,
        };
        if is_complete {
            self.end_drain(Drained::Complete);
        }
    }

    fn on_drain_deadline(&self) {
        self.end_drain(match self.hosted_channels().count_busy() {
            0 => Drained::Complete, // Only other loops were busy.
            channels => Drained::DeadlineReached { channels },
        });
    }

    /// Ends the drain because the loop shuts down.
    pub(crate) fn cut_drain_short(&self) {
        if self.current_drain().is_active() {
            self.end_drain(Drained::CutShort { channels: self.hosted_channels().count_busy() });
        }
    }

    fn end_drain(&self, outcome: Drained) {
        let Some(active) = self.current_drain().0.take() else { return };
        if let Some(timer) = active.timer {
            drop(self.sender().take_back(timer));
        }
        active.request.finish(outcome);
    }
}

impl ActiveDrain {
    /// Votes, and returns whether this loop and all others are idle. Runs no user code.
    fn vote(&mut self, here: &LocalLoop) -> bool {
        let round = self.round.take();
        self.busy = here.hosted_channels().find_busy(self.busy);
        if self.busy.is_some() {
            if std::mem::take(&mut self.has_voted_idle) {
                self.request.voter.vote_busy();
            }
            return false;
        }
        if std::mem::replace(&mut self.has_voted_idle, true) && round.is_none() {
            return false;
        }
        self.request.voter.vote_idle(round)
    }
}
