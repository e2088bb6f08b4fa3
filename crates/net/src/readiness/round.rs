//! One round: the kernel is told what has changed and asked who is ready; those are asked one by one.
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
use super::registration::{Registration, Rooms, Subject};
use crate::selector::{Selector, Signal};

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

    /// How many have something to say already.
    pub(super) fn waiting(&self) -> usize {
        let left = self.queue[self.next..].iter();
        left.filter(|token| self.registrations.get(**token).is_some()).count()
    }

    /// Takes those off the queue of the next round that have nothing to do there any more.
    #[inline(never)]
    pub(super) fn prune_later(&mut self) {
        self.later.retain(|token| {
            let Some(registration) = self.registrations.get_mut(*token) else { return false };
            registration.queued = registration.subject.has_work();
            registration.queued
        });
    }

    /// Asks the selector once, and puts who has something to say on the queue: those that are left from before come
    /// last. Returns whether there was a signal of somebody who is gone, and whether it was woken.
    #[inline]
    pub(super) fn select(&mut self, timeout: Option<Duration>) -> Result<(bool, bool)> {
        let (mut stale, mut woken) = (false, false);
        self.selector.wait(timeout, |signal| match signal {
            Signal::Woken => woken = true,
            Signal::Ready(token, ready) => match self.registrations.get_mut(token) {
                Some(registration) => match registration.on_ready(ready) {
                    true => enqueue(registration, token, &mut self.queue),
                    false => note_change(registration, token, &mut self.changes),
                },
                None => stale = true,
            },
        })?;
        if !self.later.is_empty() {
            self.queue.append(&mut self.later);
        }
        Ok((stale, woken))
    }

    /// The next event of those that are on the queue.
    #[inline(never)]
    pub(super) fn next_in_queue(&mut self) -> Option<IoEvent> {
        while let Some(&token) = self.queue.get(self.next) {
            let Some(registration) = self.registrations.get_mut(token) else {
                (self.next, self.steps) = (self.next + 1, 0);
                continue;
            };
            let mut taken = None;
            match &mut registration.subject {
                // After another step a read may be one too many: then nothing is read here.
                Subject::Socket(endpoint) if self.steps == 0 => {
                    match endpoint.read_plainly(&mut self.block) {
                        Ok((bytes, last)) => {
                            if !last {
                                return Some(IoEvent::Read(token, bytes));
                            }
                            registration.queued = false;
                            self.next += 1;
                            // It was the plan that ended the round, and not the kernel.
                            if !endpoint.is_drained() && endpoint.end_turn() {
                                enqueue(registration, token, &mut self.later);
                            }
                            return Some(IoEvent::LastRead(token, bytes));
                        }
                        Err(otherwise) => taken = otherwise,
                    }
                }
                // Its turn is one step.
                Subject::Foreign(watched) => {
                    let event = watched.next(token);
                    registration.queued = false;
                    self.next += 1;
                    if let Some(IoEvent::Failed(..)) = event {
                        note_change(registration, token, &mut self.changes);
                    }
                    if event.is_some() {
                        return event;
                    }
                    continue;
                }
                _ => {}
            }
            let rooms = Rooms { block: &mut self.block, inbox: &mut self.inbox };
            self.steps = self.steps.saturating_add(1);
            let is_over = self.steps > registration.subject.max_steps();
            let event = match is_over {
                false => registration.subject.next(token, taken, rooms),
                true => registration.subject.cut_round(token),
            };
            note_change(registration, token, &mut self.changes);
            if is_over || !registration.subject.is_in_turn() {
                registration.queued = false;
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

/// Puts a token on the list of changes if the kernel's set is not as it should be.
#[inline]
pub(super) fn note_change(registration: &mut Registration, token: Token, changes: &mut Vec<Token>) {
    if registration.is_changed() && !std::mem::replace(&mut registration.changing, true) {
        changes.push(token);
    }
}

/// Puts a token on the queue of those that have something to say.
#[inline]
pub(super) fn enqueue(registration: &mut Registration, token: Token, queue: &mut Vec<Token>) {
    if !std::mem::replace(&mut registration.queued, true) {
        queue.push(token);
    }
}
