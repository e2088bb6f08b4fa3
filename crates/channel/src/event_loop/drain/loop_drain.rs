//! A drain on its loop (L11), from the command that begins it to the shutdown that follows.
//!
//! ```text
//!   begin_drain ──► listeners close, others are told ──► every turn: look ──► nothing left, all agree ──► end
//!                                                             │                                           ▲
//!                   deadline, by the loop's timers ───────────┴───────────────────────────────────────────┤
//!                   a shutdown, whoever asked for it ─────────────────────────────────────────────────────┘
//! ```
//!
//! Whatever can change the answer happens in a turn, and at the end of every turn it is looked for; what
//! happens elsewhere sends a command (`holds`), and so makes a turn. Nothing is asked by a timer, and a loop
//! that is not draining pays one branch a turn.

use std::cell::RefCell;

use waterwheel_executor::{Nanos, TimerKey};

use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::consensus::ConfirmationRound;
use crate::event_loop::drain::{Drain, Drained};
use crate::event_loop::local_loop::LocalLoop;
use crate::token::Token;

/// What a drain asks of what is on the loop. Named by tokens.
pub(crate) trait Drainable {
    /// The loop drains from now on, until then at the latest: those that accept others are closed, all others are
    /// told.
    fn begin_drain(&self, deadline: Nanos);

    /// Returns one that has something left, which the drain waits for. `last` is the one found before: mostly it
    /// still has.
    fn find_busy(&self, last: Option<Token>) -> Option<Token>;

    /// Returns how many have something left.
    fn count_busy(&self) -> usize;
}

/// The drain of a loop, while it lasts.
#[derive(Default)]
pub(crate) struct CurrentDrain(RefCell<Option<ActiveDrain>>);

struct ActiveDrain {
    drain: Drain,
    timer: Option<TimerKey>,
    /// A channel that had something left when it was last looked at.
    busy: Option<Token>,
    /// Whether the others believe that there is nothing left here.
    said_clear: bool,
    asked: Option<ConfirmationRound>,
}

impl CurrentDrain {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.borrow().is_some()
    }
}

impl LocalLoop {
    /// Whether the loop is draining: see [`EventLoop::drain`](crate::EventLoop::drain). A drain begins
    /// here when the loop comes to it; channels that were registered until then are told.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain().is_on() && !self.is_closing()
    }

    pub(crate) fn begin_drain(&self, drain: Drain) {
        if self.is_closing() {
            return drain.end(Drained::CutShort { channels: self.hosted_channels().count_busy() });
        }
        let deadline = drain.deadline;
        let overdue = LoopCommand::new(Self::drain_overdue);
        let timer = self.sender().send_at(deadline, overdue).ok();
        let running = ActiveDrain { drain, timer, busy: None, said_clear: false, asked: None };
        *self.drain().0.borrow_mut() = Some(running);
        self.hosted_channels().begin_drain(deadline);
    }

    /// Everybody is to look, behind what was queued.
    pub(crate) fn look_when_settled(&self, question: ConfirmationRound) {
        if let Some(running) = self.drain().0.borrow_mut().as_mut() {
            running.asked = Some(question);
        }
    }

    /// Looks whether the drain is over. At the end of a turn.
    #[inline]
    pub(crate) fn check_drain(&self) {
        if self.drain().is_on() {
            self.look();
        }
    }

    #[cold]
    fn look(&self) {
        if self.is_closing() {
            return; // It is cut short, presently.
        }
        let over = match self.drain().0.borrow_mut().as_mut() {
            Some(running) => running.look(self),
            None => false,
        };
        if over {
            self.end_drain(Drained::Complete);
        }
    }

    fn drain_overdue(&self) {
        self.end_drain(match self.hosted_channels().count_busy() {
            0 => Drained::Complete, // It only waited for other loops.
            channels => Drained::DeadlineReached { channels },
        });
    }

    /// The loop shuts down.
    pub(crate) fn cut_drain_short(&self) {
        if self.drain().is_on() {
            self.end_drain(Drained::CutShort { channels: self.hosted_channels().count_busy() });
        }
    }

    fn end_drain(&self, how: Drained) {
        let Some(running) = self.drain().0.take() else { return };
        if let Some(timer) = running.timer {
            drop(self.sender().take_back(timer));
        }
        running.drain.end(how);
    }
}

impl ActiveDrain {
    /// Whether there is nothing left, here and elsewhere. Calls nobody but other loops.
    fn look(&mut self, here: &LocalLoop) -> bool {
        let asked = self.asked.take();
        self.busy = here.hosted_channels().find_busy(self.busy);
        if self.busy.is_some() {
            if std::mem::take(&mut self.said_clear) {
                self.drain.seat.is_busy();
            }
            return false;
        }
        if std::mem::replace(&mut self.said_clear, true) && asked.is_none() {
            return false;
        }
        self.drain.seat.is_clear(asked)
    }
}
