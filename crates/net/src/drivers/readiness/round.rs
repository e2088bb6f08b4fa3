//! One round: the kernel is told what has changed and asked who is ready; those are asked one by one.
//!
//! ```text
//!   this round:   signals of the selector, where the kernel has written them ──► queue ──► over
//!                 └──────────────────────── next ────────────────────────────────────┘
//!   next round:   later ──► queue
//! ```
//!
//! A round is finite, whatever the kernel says and whatever is done meanwhile:
//!
//! 1. Who takes part is settled by the wait. Those that have something to say later, because of a send or
//!    because reads are on again, take part in the next round.
//! 2. A token has its turn once. It is over when its subject says so, and after
//!    [so many steps](Subject::max_steps) in any case.

use std::io::Result;
use std::time::Duration;

use waterwheel_channel::Token;
use waterwheel_channel::driver::IoEvent;

use super::ReadinessDriver;
use super::endpoint::Taken;
use super::registration::{Registration, Rooms, Subject, Turn};
use crate::drivers::selector::{Selector, Signal};

/// The waker was used.
pub(super) const WOKEN: u8 = 1;
/// Somebody was named who is gone.
const STALE: u8 = 1 << 1;

impl<S: Selector> ReadinessDriver<S> {
    /// Tells the kernel what has changed since the last wait.
    #[inline(never)]
    pub(super) fn apply_changes(&mut self) {
        // They stay in the list until all are through: a panic over one must not lose the others.
        for token in &self.changes {
            let token = *token;
            let Some(registration) = self.registrations.get_mut(token) else { continue };
            self.applying = Some(token);
            registration.changing = false;
            if let Err(error) = registration.apply(token, &mut self.selector) {
                registration.subject.on_refused(error);
                enqueue(registration, token, &mut self.queue);
            }
        }
        self.applying = None;
        self.changes.clear();
    }

    /// True while somebody's turn of this round is not over.
    #[inline]
    pub(super) fn is_in_round(&self) -> bool {
        self.next < self.signals + self.queue.len()
    }

    /// Returns how many have something to say already; if there is nobody the round is over.
    #[cold]
    pub(super) fn left_in_round(&mut self) -> usize {
        let tokens = (self.next..self.signals + self.queue.len()).filter_map(|at| self.token(at));
        let has_turn = |token: &Token| {
            self.registrations.get(*token).is_some_and(|found| found.turn != Turn::None)
        };
        let left = tokens.filter(has_turn).count();
        if left == 0 {
            self.steps = 0;
        }
        left
    }

    /// Puts what is left of this round on the queue: the selector's signals are about to go.
    pub(super) fn keep_round(&mut self) {
        let all = self.next..self.signals + self.queue.len();
        let left: Vec<_> = all.filter_map(|at| self.token(at)).collect();
        for token in &left {
            if let Some(registration) = self.registrations.get_mut(*token)
                && registration.turn == Turn::Signalled
            {
                registration.turn = Turn::Listed;
            }
        }
        (self.signals, self.queue, self.next) = (0, left, 0);
    }

    /// Begins a round with those that are left from the one before, as far as they have something to do still.
    #[inline(never)]
    pub(super) fn begin_with_later(&mut self) {
        self.later.retain(|token| {
            let Some(registration) = self.registrations.get_mut(*token) else { return false };
            let has_work = registration.subject.has_work();
            registration.turn = if has_work { Turn::Listed } else { Turn::None };
            has_work
        });
        std::mem::swap(&mut self.queue, &mut self.later);
    }

    /// Asks the selector once. Returns how many tokens have a turn because of it, and [what else](WOKEN) it said.
    #[inline]
    pub(super) fn select(&mut self, timeout: Option<Duration>) -> Result<(usize, u8)> {
        self.signals = self.selector.wait(timeout)?;
        let (mut ready, mut besides) = (0, 0);
        for signal in self.selector.signals(self.signals) {
            let Signal::Ready(token, bits) = signal else {
                besides |= WOKEN;
                continue;
            };
            let Some(registration) = self.registrations.get_mut(token) else {
                besides |= STALE;
                continue;
            };
            if !registration.on_ready(bits) {
                note_change(registration, token, &mut self.changes);
            } else if registration.turn == Turn::None {
                registration.turn = Turn::Signalled;
                ready += 1;
            }
        }
        Ok((ready, besides))
    }

    /// Returns the token of a signal or of an entry of the queue behind the signals.
    #[inline]
    fn token(&self, at: usize) -> Option<Token> {
        if at >= self.signals {
            return self.queue.get(at - self.signals).copied();
        }
        match self.selector.signal(at) {
            Signal::Ready(token, _) => Some(token),
            Signal::Woken => None,
        }
    }

    /// Returns the token whose turn it is.
    pub(super) fn at_turn(&self) -> Option<Token> {
        (self.next < self.signals + self.queue.len()).then(|| self.token(self.next)).flatten()
    }

    /// The next event of this round. It is nearly always the turn of a stream that has something to read, and nothing
    /// else, or of a foreign descriptor: that is the short way here, everything else is [another step](Self::next_step).
    #[inline(never)]
    pub(super) fn next_in_round(&mut self) -> Option<IoEvent> {
        // After another step a read may be one too many: then nothing is read here.
        if self.steps == 0
            && let Some(token) = self.token(self.next)
            && let Some(registration) = self.registrations.get_mut(token)
            && registration.turn == named(self.next, self.signals)
        {
            if let Subject::Socket(endpoint) = &mut registration.subject {
                let (bytes, last) = match endpoint.read_plainly(&mut self.block) {
                    Ok(read) => read,
                    Err(taken) => return self.next_step(taken),
                };
                if !last {
                    return Some(IoEvent::Read(token, bytes));
                }
                registration.turn = Turn::None;
                self.next += 1;
                // It was the plan that ended the round, and not the kernel.
                if !endpoint.is_drained() && endpoint.end_turn() {
                    enqueue(registration, token, &mut self.later);
                }
                return Some(IoEvent::LastRead(token, bytes));
            }
            // Its turn is one step.
            if let Subject::Foreign(watched) = &mut registration.subject
                && let Some(told) = watched.told()
            {
                registration.turn = Turn::None;
                self.next += 1;
                return Some(IoEvent::Foreign(token, told));
            }
        }
        self.next_step(None)
    }

    /// The next event of this round; `taken` is what came of a read of whose turn it is.
    #[inline(never)]
    fn next_step(&mut self, mut taken: Option<Taken>) -> Option<IoEvent> {
        while self.next < self.signals + self.queue.len() {
            let named = named(self.next, self.signals);
            let token = self.token(self.next);
            let found = token.and_then(|token| Some((token, self.registrations.get_mut(token)?)));
            let Some((token, registration)) = found.filter(|(_, it)| it.turn == named) else {
                (self.next, self.steps) = (self.next + 1, 0);
                continue;
            };
            let rooms = Rooms { block: &mut self.block, inbox: &mut self.inbox };
            self.steps = self.steps.saturating_add(1);
            let is_over = self.steps > registration.subject.max_steps();
            let event = match is_over {
                false => registration.subject.next(token, taken.take(), rooms),
                true => registration.subject.cut_round(token),
            };
            note_change(registration, token, &mut self.changes);
            if is_over || !registration.subject.is_in_turn() {
                registration.turn = Turn::None;
                (self.next, self.steps) = (self.next + 1, 0);
                if registration.subject.end_turn() {
                    enqueue(registration, token, &mut self.later);
                }
            }
            if event.is_some() {
                return event;
            }
        }
        None
    }
}

/// Returns how those are marked that have their turn at this place of the round.
#[inline]
fn named(at: usize, signals: usize) -> Turn {
    if at < signals { Turn::Signalled } else { Turn::Listed }
}

/// Puts a token on the list of changes if the kernel's set is not as it should be.
#[inline]
pub(super) fn note_change(registration: &mut Registration, token: Token, changes: &mut Vec<Token>) {
    if registration.is_changed() && !std::mem::replace(&mut registration.changing, true) {
        changes.push(token);
    }
}

/// Puts a token on a list of those that have something to say, unless it is to have a turn as it is.
#[inline]
pub(super) fn enqueue(registration: &mut Registration, token: Token, list: &mut Vec<Token>) {
    if registration.turn == Turn::None {
        registration.turn = Turn::Listed;
        list.push(token);
    }
}
