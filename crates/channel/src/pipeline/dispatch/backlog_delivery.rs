//! The backlog of a slot: events that arrive while its handler runs are queued, and delivered when the call returns
//! (rules 2 to 4).
//!
//! ```text
//!   queue_at_slot ──► [a b c] ──► the call returns ──► finish_call: a, b, c, and the events these add
//!                        ▲                                  │ too many added
//!                        │ other channels, tasks, timers    ▼
//!                        └─────────────────────── suspend_delivery ──► far too many: the channel is closed
//! ```
//!
//! An event that a handler itself fires when its call returns (`Ctx::fire_read_on_return`) waits in the same place. If
//! nothing else does, the handler is put back first: an answer then reaches it by a plain call.

use std::cell::RefMut;
use std::rc::Rc;

use waterwheel_executor::{Error, UserCode};

use super::event::{AnyEvent, Read, ReadComplete};
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::channel::panics::catch_user_panic;
use crate::pipeline::completion::Completion;
use crate::pipeline::dispatch::HandlerCall;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::Handler;
use crate::pipeline::slots::slot::{Backlog, EventOnReturn, QueuedEvent, SlotState};
use crate::pipeline::slots::slot_list::{SlotId, SlotList};

/// A slot with more queued writes than this makes its channel unwritable (rule 6). The number of writes is limited
/// because messages without a size hint add no pending bytes.
pub(crate) const MAX_QUEUED_WRITES: usize = 64;

/// If one delivery adds more events than this to its backlog, the rest is delivered after other channels had a turn;
/// tasks and timers get a turn after 16 such deliveries, which is about 4,096 events.
const ADDED_PER_DELIVERY: usize = 256;

/// If a handler adds more events to its own backlog than this without the backlog ever being empty, the delivery is
/// considered endless, and the channel is closed: 4,096 deliveries, more than a hundred turns of the loop.
const MAX_ADDED: usize = 1 << 20;

/// A backlog that is longer than this and has grown during a delivery is considered endless too, because it takes
/// memory.
const MAX_GROWING: usize = 16 * 1024;

impl ChannelCore {
    /// Fires the event that waits for the return of the handler. If nothing else was queued, the handler is put back
    /// first, so that it can be called while that event is handled.
    #[inline(never)]
    pub(super) fn fire_on_return(self: &Rc<Self>, at: u32, handler: Box<dyn Handler>) {
        let mut slots = self.pipeline.slots.borrow_mut();
        let slot = slots.at_mut(at);
        let Some(event) = slot.take_on_return() else {
            drop(slots);
            return self.finish_call(at, handler);
        };
        if slot.state != SlotState::Removed && !slot.has_backlog() {
            slot.end_call(handler);
            drop(slots);
            return self.forward_on_return(at, event);
        }
        drop(slots);
        // Until the call is finished, a panic puts the handler back.
        let call = HandlerCall::begin(self, at, handler);
        self.forward_on_return(at, event);
        self.finish_call(at, call.end());
    }

    /// Fires the event that waits for the return of the handler, if there is one, while its handler is out.
    fn fire_kept_on_return(self: &Rc<Self>, at: u32) {
        let event = self.pipeline.slots.borrow_mut().at_mut(at).take_on_return();
        if let Some(event) = event {
            self.forward_on_return(at, event);
        }
    }

    fn forward_on_return(self: &Rc<Self>, at: u32, event: EventOnReturn) {
        match event {
            EventOnReturn::Read(msg) => self.send_from(at, Read(msg)),
            EventOnReturn::ReadComplete => self.send_from(at, ReadComplete),
        }
    }

    /// Makes a handler that is running fire an event when its call returns. An event that waits already is fired now.
    pub(crate) fn set_on_return(self: &Rc<Self>, at: u32, event: EventOnReturn) {
        let previous = self.pipeline.slots.borrow_mut().at_mut(at).set_on_return(event);
        if let Some(previous) = previous {
            self.forward_on_return(at, previous);
        }
    }

    /// Delivers the events queued while the handler ran. Then puts the handler back or, if it was removed, calls its
    /// `on_removed` and discards it. If the delivery adds too many events, the rest is delivered later.
    #[cold]
    pub(super) fn finish_call(self: &Rc<Self>, at: u32, handler: Box<dyn Handler>) {
        let mut call = HandlerCall::begin(self, at, handler);
        let mut on_removed_called = false;
        let (added_before, len_before) =
            self.pipeline.slots.borrow_mut().at_mut(at).begin_delivery();
        loop {
            // After `on_removed` the delivery is never suspended: resuming it would call `on_removed` again.
            let max_added =
                if on_removed_called { MAX_ADDED } else { added_before + ADDED_PER_DELIVERY };
            while let Some(queued) = self.next_queued(at, max_added) {
                if queued.is_for_handler && !on_removed_called {
                    call.run(|handler, ctx| queued.event.deliver(handler, ctx));
                    self.fire_kept_on_return(at);
                } else {
                    queued.event.forward_from(self, at);
                }
            }
            let len = self.pipeline.slots.borrow().at(at).backlog_len();
            if len > 0 {
                let is_growing = len > len_before.max(MAX_GROWING);
                if on_removed_called || is_growing || added_before >= MAX_ADDED {
                    self.close_for_endless_backlog(at);
                    continue;
                }
                return self.suspend_delivery(at, call.end());
            }
            let is_removed = self.pipeline.slots.borrow().at(at).state == SlotState::Removed;
            if !is_removed || on_removed_called {
                break;
            }
            on_removed_called = true;
            call.run(|handler, ctx| handler.on_removed(ctx));
            self.fire_kept_on_return(at);
        }
        let handler = call.end();
        let mut slots = self.pipeline.slots.borrow_mut();
        if on_removed_called && slots.at(at).state == SlotState::Removed {
            drop(slots);
            self.discard_slot(at, Some(handler));
        } else {
            slots.at_mut(at).end_delivery(handler);
            slots.stop_for_interest(at);
        }
    }

    /// Suspends the delivery of a backlog, so that other channels get a turn. The handler counts as running
    /// meanwhile.
    fn suspend_delivery(self: &Rc<Self>, at: u32, handler: Box<dyn Handler>) {
        let slot = {
            let mut slots = self.pipeline.slots.borrow_mut();
            slots.at_mut(at).suspend(handler);
            slots.id(at)
        };
        self.resume_backlog_later(slot);
    }

    /// Resumes the delivery of a backlog that was suspended.
    pub(crate) fn resume_backlog(self: &Rc<Self>, slot: SlotId) {
        let suspended = {
            let mut slots = self.pipeline.slots.borrow_mut();
            let at = slots.find(slot);
            at.and_then(|at| Some((at, slots.at_mut(at).take_suspended()?)))
        };
        if let Some((at, handler)) = suspended {
            self.finish_call(at, handler);
        }
    }

    /// Closes the channel because the delivery of a backlog would not end; the queued events fail.
    fn close_for_endless_backlog(self: &Rc<Self>, at: u32) {
        let events = self.pipeline.slots.borrow().at(at).added_during_delivery();
        let error = ChannelError::EndlessBacklog { handler: self.name_of(at), events };
        self.report(&error.to_string());
        self.close(Some(Error::from(error)), Completion::none());
        let backlog = self.pipeline.slots.borrow_mut().at_mut(at).take_backlog();
        self.fail_backlog(backlog);
    }

    /// Queues an event at a slot whose handler is running.
    #[cold]
    pub(super) fn queue_at_slot(
        self: &Rc<Self>,
        slots: RefMut<'_, SlotList>,
        at: u32,
        event: AnyEvent,
        is_for_handler: bool,
    ) {
        // A message's size hint is user code: it is called while nothing is borrowed. The slot exists afterwards,
        // because its handler is on the stack.
        drop(slots);
        let bytes = event.pending_bytes();
        let is_write = matches!(event, AnyEvent::Write(_));
        let direction = if event.is_inbound() { Events::INBOUND } else { Events::OUTBOUND };
        let queued = QueuedEvent { event, bytes, is_for_handler };
        self.pipeline.add_stop_events(Events::ALL);
        let writes = {
            let mut slots = self.pipeline.slots.borrow_mut();
            slots.stop_direction(at, direction);
            slots.at_mut(at).enqueue(queued)
        };
        if is_write {
            self.add_pending(bytes);
            if writes == MAX_QUEUED_WRITES + 1 {
                self.add_unwritable_reason();
            }
        }
    }

    /// Takes the next queued event, and subtracts its size from the pending bytes.
    fn next_queued(self: &Rc<Self>, at: u32, max_added: usize) -> Option<QueuedEvent> {
        let next = self.pipeline.slots.borrow_mut().at_mut(at).next_queued(max_added);
        let (queued, before, after) = next?;
        self.release_queued(queued.bytes, before, after);
        Some(queued)
    }

    /// Updates the pending bytes and the number of overflowing slots after an event has left a backlog.
    fn release_queued(self: &Rc<Self>, bytes: usize, writes_before: usize, writes_after: usize) {
        self.remove_pending(bytes);
        if writes_before > MAX_QUEUED_WRITES && writes_after <= MAX_QUEUED_WRITES {
            self.remove_unwritable_reason();
        }
    }

    /// Fails all events of a backlog, with the error of a closed channel.
    pub(super) fn fail_backlog(self: &Rc<Self>, mut backlog: Backlog) {
        if backlog.is_empty() {
            return;
        }
        let error = self.closed_error();
        loop {
            let before = backlog.writes();
            let Some(queued) = backlog.pop() else { return };
            self.release_queued(queued.bytes, before, backlog.writes());
            // Panics are caught one by one: a destructor that panics does not affect the other events.
            let _ = catch_user_panic(UserCode::Destructor, "message", || {
                queued.event.fail(self, &error)
            });
        }
    }
}
