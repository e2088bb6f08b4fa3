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
//! 2. A token has its turn once. It is over when its io says so, and after
//!    [so many steps](RegisteredIo::max_steps) in any case.

use std::io::Result;
use std::time::Duration;

use waterwheel_channel::Token;
use waterwheel_channel::driver::IoEvent;

use super::ReadinessDriver;
use super::registration::{ReadBuffers, RegisteredIo, Registration, Visit};
use super::stream_endpoint::ReadOutcome;
use crate::drivers::selector::{Selector, SelectorEvent};

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
            registration.is_in_changes = false;
            if let Err(error) = registration.apply(token, &mut self.selector) {
                registration.io.on_watch_refused(error);
                enqueue(registration, token, &mut self.queue);
            }
        }
        self.applying = None;
        self.changes.clear();
    }

    /// True while somebody's turn of this round is not over.
    #[inline]
    pub(super) fn is_in_round(&self) -> bool {
        self.cursor < self.event_count + self.queue.len()
    }

    /// Returns how many have something to say already; if there is nobody the round is over.
    #[cold]
    pub(super) fn count_left_in_round(&mut self) -> usize {
        let tokens =
            (self.cursor..self.event_count + self.queue.len()).filter_map(|at| self.token_at(at));
        let needs_visit = |token: &Token| {
            self.registrations.get(*token).is_some_and(|found| found.visit != Visit::None)
        };
        let left = tokens.filter(needs_visit).count();
        if left == 0 {
            self.steps = 0;
        }
        left
    }

    /// Puts what is left of this round on the queue: the selector's signals are about to go.
    pub(super) fn save_round(&mut self) {
        let all = self.cursor..self.event_count + self.queue.len();
        let left: Vec<_> = all.filter_map(|at| self.token_at(at)).collect();
        for token in &left {
            if let Some(registration) = self.registrations.get_mut(*token)
                && registration.visit == Visit::Reported
            {
                registration.visit = Visit::Queued;
            }
        }
        (self.event_count, self.queue, self.cursor) = (0, left, 0);
    }

    /// Begins a round with those that are left from the one before, as far as they have something to do still.
    #[inline(never)]
    pub(super) fn start_with_deferred(&mut self) {
        self.deferred.retain(|token| {
            let Some(registration) = self.registrations.get_mut(*token) else { return false };
            let has_work = registration.io.has_work();
            registration.visit = if has_work { Visit::Queued } else { Visit::None };
            has_work
        });
        std::mem::swap(&mut self.queue, &mut self.deferred);
    }

    /// Asks the selector once. Returns how many tokens have a turn because of it, and [what else](WOKEN) it said.
    #[inline]
    pub(super) fn select(&mut self, timeout: Option<Duration>) -> Result<(usize, u8)> {
        self.event_count = self.selector.wait(timeout)?;
        let (mut ready, mut others) = (0, 0);
        for signal in self.selector.events(self.event_count) {
            let SelectorEvent::Ready(token, bits) = signal else {
                others |= WOKEN;
                continue;
            };
            let Some(registration) = self.registrations.get_mut(token) else {
                others |= STALE;
                continue;
            };
            if !registration.on_ready(bits) {
                note_change(registration, token, &mut self.changes);
            } else if registration.visit == Visit::None {
                registration.visit = Visit::Reported;
                ready += 1;
            }
        }
        Ok((ready, others))
    }

    /// Returns the token of a signal or of an entry of the queue behind the signals.
    #[inline]
    fn token_at(&self, at: usize) -> Option<Token> {
        if at >= self.event_count {
            return self.queue.get(at - self.event_count).copied();
        }
        match self.selector.event_at(at) {
            SelectorEvent::Ready(token, _) => Some(token),
            SelectorEvent::Woken => None,
        }
    }

    /// Returns the token whose turn it is.
    pub(super) fn visited_token(&self) -> Option<Token> {
        (self.cursor < self.event_count + self.queue.len())
            .then(|| self.token_at(self.cursor))
            .flatten()
    }

    /// The next event of this round. It is nearly always the turn of a stream that has something to read, and nothing
    /// else, or of a foreign descriptor: that is the short way here, everything else is [another step](Self::next_step).
    #[inline(never)]
    pub(super) fn next_in_round(&mut self) -> Option<IoEvent> {
        // After another step a read may be one too many: then nothing is read here.
        if self.steps == 0
            && let Some(token) = self.token_at(self.cursor)
            && let Some(registration) = self.registrations.get_mut(token)
            && registration.visit == expected_visit(self.cursor, self.event_count)
        {
            if let RegisteredIo::Stream(endpoint) = &mut registration.io {
                let (bytes, last) = match endpoint.read_fast(&mut self.read_block) {
                    Ok(read) => read,
                    Err(outcome) => return self.next_step(outcome),
                };
                if !last {
                    return Some(IoEvent::Read(token, bytes));
                }
                registration.visit = Visit::None;
                self.cursor += 1;
                // It was the plan that ended the round, and not the kernel.
                if !endpoint.is_drained() && endpoint.end_visit() {
                    enqueue(registration, token, &mut self.deferred);
                }
                return Some(IoEvent::LastRead(token, bytes));
            }
            // Its turn is one step.
            if let RegisteredIo::Foreign(foreign) = &mut registration.io
                && let Some(told) = foreign.take_readiness()
            {
                registration.visit = Visit::None;
                self.cursor += 1;
                return Some(IoEvent::Foreign(token, told));
            }
        }
        self.next_step(None)
    }

    /// The next event of this round; `outcome` is what came of a read of whose turn it is.
    #[inline(never)]
    fn next_step(&mut self, mut outcome: Option<ReadOutcome>) -> Option<IoEvent> {
        while self.cursor < self.event_count + self.queue.len() {
            let expected = expected_visit(self.cursor, self.event_count);
            let token = self.token_at(self.cursor);
            let found = token.and_then(|token| Some((token, self.registrations.get_mut(token)?)));
            let Some((token, registration)) = found.filter(|(_, it)| it.visit == expected) else {
                (self.cursor, self.steps) = (self.cursor + 1, 0);
                continue;
            };
            let buffers =
                ReadBuffers { block: &mut self.read_block, datagrams: &mut self.datagram_buffer };
            self.steps = self.steps.saturating_add(1);
            let is_over = self.steps > registration.io.max_steps();
            let event = match is_over {
                false => registration.io.next(token, outcome.take(), buffers),
                true => registration.io.cut_round(token),
            };
            note_change(registration, token, &mut self.changes);
            if is_over || !registration.io.is_visit_open() {
                registration.visit = Visit::None;
                (self.cursor, self.steps) = (self.cursor + 1, 0);
                if registration.io.end_visit() {
                    enqueue(registration, token, &mut self.deferred);
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
fn expected_visit(at: usize, signals: usize) -> Visit {
    if at < signals { Visit::Reported } else { Visit::Queued }
}

/// Puts a token on the list of changes if the kernel's set is not as it should be.
#[inline]
pub(super) fn note_change(registration: &mut Registration, token: Token, changes: &mut Vec<Token>) {
    if registration.is_changed() && !std::mem::replace(&mut registration.is_in_changes, true) {
        changes.push(token);
    }
}

/// Puts a token on a list of those that have something to say, unless it is to have a turn as it is.
#[inline]
pub(super) fn enqueue(registration: &mut Registration, token: Token, list: &mut Vec<Token>) {
    if registration.visit == Visit::None {
        registration.visit = Visit::Queued;
        list.push(token);
    }
}
