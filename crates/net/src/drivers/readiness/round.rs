//! One round: tells the kernel what has changed, asks which registrations are ready, and visits them one by
//! one.
//!
//! ```text
//!   this round:   events of the selector, in the kernel's buffer ──► queue ──► over
//!                 └────────────────────── cursor ─────────────────────────┘
//!   next round:   deferred ──► queue
//! ```
//!
//! A round is finite, whatever the kernel reports and whatever the loop does meanwhile:
//!
//! 1. The wait fixes the members of the round. A registration that gets work later, by a send or because reads
//!    are turned on, is visited in the next round.
//! 2. A token is visited once. The visit ends when its endpoint has nothing more to report, and after at most
//!    [`max_steps`](RegisteredIo::max_steps) steps.

use std::io::Result;
use std::time::Duration;

use waterwheel_channel::Token;
use waterwheel_channel::driver::IoEvent;

use super::ReadinessDriver;
use super::registration::{ReadBuffers, RegisteredIo, Registration, Visit};
use super::stream_endpoint::ReadOutcome;
use crate::drivers::selector::{Selector, SelectorEvent};

/// The waker was written to.
pub(super) const WOKEN: u8 = 1;
/// The kernel reported a token that is no longer registered.
const STALE: u8 = 1 << 1;

impl<S: Selector> ReadinessDriver<S> {
    /// Tells the kernel which watched events have changed since the last wait.
    #[inline(never)]
    pub(super) fn apply_changes(&mut self) {
        // The list is cleared after all changes were applied: a panic over one token must not lose the others.
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

    /// True while this round has registrations left to visit.
    #[inline]
    pub(super) fn is_in_round(&self) -> bool {
        self.cursor < self.event_count + self.queue.len()
    }

    /// Returns how many registrations of this round have not been visited yet; zero ends the round.
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

    /// Moves the rest of this round to the queue, because the selector's events are about to be replaced.
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

    /// Starts a round with the deferred registrations that still have work.
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

    /// Asks the selector once. Returns the number of tokens to visit because of its events, and the flags
    /// [`WOKEN`] and `STALE`.
    #[inline]
    pub(super) fn select(&mut self, timeout: Option<Duration>) -> Result<(usize, u8)> {
        self.event_count = self.selector.wait(timeout)?;
        let (mut ready, mut select_flags) = (0, 0);
        for signal in self.selector.events(self.event_count) {
            let SelectorEvent::Ready(token, bits) = signal else {
                select_flags |= WOKEN;
                continue;
            };
            let Some(registration) = self.registrations.get_mut(token) else {
                select_flags |= STALE;
                continue;
            };
            if !registration.on_ready(bits) {
                note_change(registration, token, &mut self.changes);
            } else if registration.visit == Visit::None {
                registration.visit = Visit::Reported;
                ready += 1;
            }
        }
        Ok((ready, select_flags))
    }

    /// Returns the token at this position: from a selector event, or from the queue, which follows the events.
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

    /// Returns the token that is being visited.
    pub(super) fn visited_token(&self) -> Option<Token> {
        (self.cursor < self.event_count + self.queue.len())
            .then(|| self.token_at(self.cursor))
            .flatten()
    }

    /// Returns the next event of this round. Nearly every event comes from a stream with plain data to read or
    /// from a foreign descriptor: this function is their fast path, and everything else is [another
    /// step](Self::next_step).
    #[inline(never)]
    pub(super) fn next_in_round(&mut self) -> Option<IoEvent> {
        // The fast path is for the first step only: after another step a read might exceed the plan.
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
                // The plan's limit has ended the reads; the kernel's buffer may hold more.
                if !endpoint.is_drained() && endpoint.end_visit() {
                    enqueue(registration, token, &mut self.deferred);
                }
                return Some(IoEvent::LastRead(token, bytes));
            }
            // A visit to a foreign descriptor is one step.
            if let RegisteredIo::Foreign(foreign) = &mut registration.io
                && let Some(readiness) = foreign.take_readiness()
            {
                registration.visit = Visit::None;
                self.cursor += 1;
                return Some(IoEvent::Foreign(token, readiness));
            }
        }
        self.next_step(None)
    }

    /// Returns the next event of this round; `outcome` is the result of a read that the fast path has made.
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

/// Returns the mark that a token at this position must have to be visited.
#[inline]
fn expected_visit(at: usize, signals: usize) -> Visit {
    if at < signals { Visit::Reported } else { Visit::Queued }
}

/// Puts a token on the list of changes if the kernel's set has to change.
#[inline]
pub(super) fn note_change(registration: &mut Registration, token: Token, changes: &mut Vec<Token>) {
    if registration.is_changed() && !std::mem::replace(&mut registration.is_in_changes, true) {
        changes.push(token);
    }
}

/// Puts a token on a list of tokens to visit, unless it is on one already.
#[inline]
pub(super) fn enqueue(registration: &mut Registration, token: Token, list: &mut Vec<Token>) {
    if registration.visit == Visit::None {
        registration.visit = Visit::Queued;
        list.push(token);
    }
}
