//! What waits at a slot whose handler runs: how it gets there, and how it is delivered (rules 2 to 4).
//!
//! ```text
//!   wait ──► [a b c] ──► the call returns ──► finish_call: a, b, c, and what they cause
//!               ▲                                  │ keeps causing more
//!               │ other channels, tasks, timers    ▼
//!               └──────────────────────────────── park ──► after too many: the channel is closed
//! ```

use std::cell::RefMut;
use std::rc::Rc;

use waterwheel_executor::{Error, UserCode};

use super::event::AnyEvent;
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::channel::panics::catch_user_panic;
use crate::pipeline::completion::Completion;
use crate::pipeline::dispatch::Call;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::Handler;
use crate::pipeline::slots::slot::{Backlog, SlotState, Waiting};
use crate::pipeline::slots::slot_list::{SlotId, Slots};

/// A slot with more writes than this waiting makes its channel unwritable (rule 6): they may weigh
/// nothing, and would be counted by nobody.
pub(crate) const MAX_WAITING_WRITES: usize = 64;

/// A slot whose backlog grows by more than this while it is delivered lets others have their turn before the
/// rest: other channels then, tasks and timers after 16 such visits, which is about 4,096 events.
const CAUSED_PER_VISIT: usize = 256;

/// A handler that causes more events for itself than this, without its backlog ever being empty, will not come
/// to an end: 4,096 visits, more than a hundred turns of the loop. The channel is closed.
const MAX_CAUSED: usize = 1 << 20;

/// Nor will one whose backlog is longer than this and still grows while it is delivered: that is memory.
const MAX_GROWN: usize = 16 * 1024;

impl ChannelCore {
    /// Delivers what came while the handler ran; then puts it back or, if it was removed, takes leave
    /// of it. If that keeps causing more, the rest is delivered when others have had their turn.
    #[cold]
    pub(super) fn finish_call(self: &Rc<Self>, at: u32, handler: Box<dyn Handler>) {
        let mut call = Call::begin(self, at, handler);
        let mut told = false;
        let (caused, waiting) = self.handlers.slots.borrow_mut().at_mut(at).begin_delivery();
        loop {
            // One that has taken its leave would do so again: it is not parked.
            let most = if told { MAX_CAUSED } else { caused + CAUSED_PER_VISIT };
            while let Some(waiting) = self.next_waiting(at, most) {
                if waiting.for_handler && !told {
                    call.run(|handler, ctx| waiting.event.deliver(handler, ctx));
                } else {
                    waiting.event.go_on(self, at);
                }
            }
            let left = self.handlers.slots.borrow().at(at).waiting();
            if left > 0 {
                let grown = left > waiting.max(MAX_GROWN);
                if told || grown || caused >= MAX_CAUSED {
                    self.give_up_backlog(at);
                    continue;
                }
                return self.park(at, call.end());
            }
            let removed = self.handlers.slots.borrow().at(at).state == SlotState::Removed;
            if !removed || told {
                break;
            }
            told = true;
            call.run(|handler, ctx| handler.on_removed(ctx));
        }
        let handler = call.end();
        let mut slots = self.handlers.slots.borrow_mut();
        if told && slots.at(at).state == SlotState::Removed {
            drop(slots);
            self.discard(at, Some(handler));
        } else {
            slots.at_mut(at).end_delivery(handler);
        }
    }

    /// Lets others have their turn before the rest of what waits at a slot. Its handler counts as running
    /// meanwhile.
    fn park(self: &Rc<Self>, at: u32, handler: Box<dyn Handler>) {
        let slot = {
            let mut slots = self.handlers.slots.borrow_mut();
            slots.at_mut(at).park(handler);
            slots.id(at)
        };
        self.continue_backlog_later(slot);
    }

    /// Goes on with what waits at a slot that was parked.
    pub(crate) fn go_on_with_backlog(self: &Rc<Self>, slot: SlotId) {
        let parked = {
            let mut slots = self.handlers.slots.borrow_mut();
            let at = slots.find(slot);
            at.and_then(|at| Some((at, slots.at_mut(at).unpark()?)))
        };
        if let Some((at, handler)) = parked {
            self.finish_call(at, handler);
        }
    }

    /// What waits at a slot would never come to an end: it fails, and the channel is closed.
    fn give_up_backlog(self: &Rc<Self>, at: u32) {
        let events = self.handlers.slots.borrow().at(at).caused();
        let error = ChannelError::EndlessBacklog { handler: self.name_of(at), events };
        self.report(&error.to_string());
        self.close(Some(Error::from(error)), Completion::none());
        let backlog = self.handlers.slots.borrow_mut().at_mut(at).take_backlog();
        self.fail_backlog(backlog);
    }

    /// Lets an event wait at a slot whose handler runs.
    #[cold]
    pub(super) fn wait(
        self: &Rc<Self>,
        slots: RefMut<'_, Slots>,
        at: u32,
        event: AnyEvent,
        for_handler: bool,
    ) {
        // What a message weighs it is asked where nothing is borrowed. The slot is there afterwards: its
        // handler is on the stack.
        drop(slots);
        let bytes = event.pending_bytes();
        let is_write = matches!(event, AnyEvent::Write(_));
        let waiting = Waiting { event, bytes, for_handler };
        self.handlers.will_stop_for(Events::ALL);
        let writes = self.handlers.slots.borrow_mut().at_mut(at).wait(waiting);
        if is_write {
            self.add_pending(bytes);
            if writes == MAX_WAITING_WRITES + 1 {
                self.add_overflow();
            }
        }
    }

    fn next_waiting(self: &Rc<Self>, at: u32, most: usize) -> Option<Waiting> {
        let next = self.handlers.slots.borrow_mut().at_mut(at).next_waiting(most);
        let (waiting, before, after) = next?;
        self.no_longer_waiting(waiting.bytes, before, after);
        Some(waiting)
    }

    fn no_longer_waiting(self: &Rc<Self>, bytes: usize, writes_before: usize, writes_after: usize) {
        self.remove_pending(bytes);
        if writes_before > MAX_WAITING_WRITES && writes_after <= MAX_WAITING_WRITES {
            self.remove_overflow();
        }
    }

    pub(super) fn fail_backlog(self: &Rc<Self>, mut backlog: Backlog) {
        if backlog.is_empty() {
            return;
        }
        let error = self.closed_error();
        loop {
            let before = backlog.writes();
            let Some(waiting) = backlog.pop() else { return };
            self.no_longer_waiting(waiting.bytes, before, backlog.writes());
            // One by one: a destructor that panics keeps none of the others.
            let _ = catch_user_panic(UserCode::Destructor, "message", || {
                waiting.event.fail(self, &error)
            });
        }
    }
}
