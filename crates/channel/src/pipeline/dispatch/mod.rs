//! Dispatch: how an event passes from slot to slot.
//!
//! ```text
//!   send_from ──► next slot that stops for the event ──► its handler is idle:     taken out, called, put back
//!       ▲                                           └──► its handler is running:  the event is queued (rule 2)
//!       └──────────── ctx.fire_…, ctx.write, … ◄──────── the handler
//! ```
//!
//! Nothing is borrowed while a handler runs (rule 1). A handler is on the stack at most once, so the
//! stack is never deeper than the pipeline is long (rule 7).
//!
//! | to understand | read |
//! |---|---|
//! | the events, and which method of a handler each one calls | `event` |
//! | how events are queued at a running handler, and delivered | `backlog_delivery` |
//! | how the watchdog learns which handler runs | `watched_handler` |

pub(crate) mod backlog_delivery;
pub(crate) mod event;
pub(crate) mod watched_handler;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;

use self::event::{Event, Flush, Read, ReadComplete, Write};
use super::completion::Completion;
use super::context::Ctx;
use super::event_set::Events;
use super::handler::Handler;
use super::message::{Message, Msg};
use super::slots::slot::{ColdSlotState, HandlerInfo, SlotState};
use super::slots::slot_list::{HEAD, SlotList, TAIL};
use crate::channel::core::{ChannelCore, DeferredWork};

/// The pipeline of a channel: its slots, and the state that concerns all of them.
pub(crate) struct PipelineState {
    pub(crate) slots: RefCell<SlotList>,
    /// The events that some slot has ever stopped for; all events once one had to be queued. Any other event reaches
    /// the end of the pipeline without a search through the slots.
    ever_stopped_for: Cell<Events>,
    /// The slot whose handler panicked; [`HEAD`] if none did.
    panicked_slot: Cell<u32>,
    /// The number of names generated from handler types.
    pub(crate) generated_names: Cell<u32>,
    /// True once all handlers are being removed and no more may be added.
    pub(crate) is_closed: Cell<bool>,
    /// True while the removal of all handlers waits for a slot to be discarded.
    pub(crate) is_removal_waiting: Cell<bool>,
    /// True if the removal of all handlers does not wait for slots that are being removed already.
    pub(crate) skips_lingering: Cell<bool>,
    /// The number of handlers removed so far. While the number is unchanged, a handler knows that it was not removed.
    pub(crate) removals: Cell<u32>,
    /// The number of timers set so far, which is the number of the next one.
    pub(crate) timers_set: Cell<u32>,
}

impl PipelineState {
    pub(crate) fn new() -> Self {
        Self {
            slots: RefCell::new(SlotList::new()),
            ever_stopped_for: Cell::new(Events::NONE),
            panicked_slot: Cell::new(HEAD),
            generated_names: Cell::new(0),
            removals: Cell::new(0),
            timers_set: Cell::new(0),
            is_closed: Cell::new(false),
            is_removal_waiting: Cell::new(false),
            skips_lingering: Cell::new(false),
        }
    }
}

impl PipelineState {
    /// Records that some slot stops for these events from now on.
    pub(crate) fn add_stop_events(&self, events: Events) {
        self.ever_stopped_for.set(self.ever_stopped_for.get() | events);
    }

    /// False if no handler so far was interested in this event: dispatch can skip the search.
    #[inline]
    pub(crate) fn may_stop_for(&self, event: Events) -> bool {
        self.ever_stopped_for.get().contains(event)
    }
}

impl ChannelCore {
    /// Sends an event through the whole pipeline: an inbound one from the head, an outbound one from the tail.
    #[inline(always)]
    pub(crate) fn send_through<E: Event>(self: &Rc<Self>, event: E) {
        if self.pipeline.may_stop_for(E::BIT) {
            self.send_from_outlined(if E::INBOUND { HEAD } else { TAIL }, event);
        } else {
            event.reach_end(self);
        }
    }

    /// Sends an event from the slot `from` to the next slot that stops for it: inward for an inbound event, outward for
    /// an outbound one. An outbound event queues at `from` itself if events are queued there that it must not overtake
    /// (rule 3).
    #[inline(always)]
    pub(crate) fn send_from<E: Event>(self: &Rc<Self>, from: u32, event: E) {
        let mut slots = self.pipeline.slots.borrow_mut();
        let (at, end) = if E::INBOUND {
            (slots.next_inward(from, E::BIT), TAIL)
        } else {
            if slots.at(from).must_queue_outbound() {
                return self.queue_at_slot(slots, from, event.into_any(), false);
            }
            (slots.next_outward(from, E::BIT), HEAD)
        };
        if at == end {
            drop(slots);
            return event.reach_end(self);
        }
        match slots.at_mut(at).begin_call() {
            Some(handler) => {
                drop(slots);
                self.call(at, handler, |handler, ctx| event.deliver(handler, ctx));
            }
            None => {
                // If the running handler was removed, or is not interested in the event, the event skips it, but only
                // after the events queued there.
                let slot = slots.at(at);
                let is_for_handler = slot.state != SlotState::Removed
                    && slot.info().is_some_and(|info| info.interest.contains(E::BIT));
                self.queue_at_slot(slots, at, event.into_any(), is_for_handler);
            }
        }
    }

    /// Sends the last message of a round of reads. If the handler that receives it is also the first to stop for
    /// `READ_COMPLETE`, the usual case, that event is delivered within the same call; returns true if it was.
    #[inline(always)]
    pub(crate) fn send_last_read(self: &Rc<Self>, msg: Msg) -> bool {
        let mut slots = self.pipeline.slots.borrow_mut();
        let at = slots.first_read();
        let handler = if at == TAIL { None } else { slots.at_mut(at).begin_call() };
        drop(slots);
        let Some(handler) = handler else {
            self.send_from_outlined(HEAD, Read(msg));
            return false;
        };
        let mut is_completed = false;
        self.call(at, handler, |handler, ctx| {
            Read(msg).deliver(handler, ctx);
            is_completed =
                self.pipeline.slots.borrow().may_get_read_complete(at) && self.take_end_of_round();
            if is_completed {
                ReadComplete.deliver(handler, ctx);
            }
        });
        is_completed
    }

    /// Sends a write without a completion from the slot `from`. Not inlined, as [`flush_from`](Self::flush_from): the
    /// two calls usually end an answer, and one copy of the code serves all handlers with one call each.
    #[inline(never)]
    pub(crate) fn write_from(self: &Rc<Self>, from: u32, msg: Msg) {
        if self.pipeline.may_stop_for(Write::BIT) && !self.is_last_for_writes(from) {
            self.send_from_outlined(from, Write(msg, Completion::none()));
        } else {
            self.write_unawaited(msg);
        }
    }

    /// Writes a message that other channels get too, and flushes, in one call. Returns false, and does nothing, if the
    /// channel has to get a message of its own: see [`Handler::encode_shared`].
    #[inline]
    pub(crate) fn send_shared(self: &Rc<Self>, msg: &dyn Message) -> bool {
        if self.must_defer() {
            return false;
        }
        let mut slots = self.pipeline.slots.borrow_mut();
        let Some(at) = slots.only_writer() else { return false };
        if at == HEAD {
            drop(slots);
            let bytes = (msg as &dyn Any).downcast_ref::<Bytes>().cloned();
            return bytes.map(|bytes| self.enter(|core| core.send_bytes(bytes))).is_some();
        }
        let Some(handler) = slots.at_mut(at).begin_call() else { return false };
        drop(slots);
        let mut is_sent = false;
        self.enter(|core| {
            let mut encoded = None;
            core.call(at, handler, |handler, ctx| encoded = handler.encode_shared(ctx, msg));
            if let Some(bytes) = encoded {
                is_sent = true;
                core.send_bytes(bytes);
            }
        });
        is_sent
    }

    /// True if a write of the slot `from` reaches the transport at once, without passing another handler.
    #[inline]
    pub(crate) fn is_last_for_writes(&self, from: u32) -> bool {
        let slots = self.pipeline.slots.borrow();
        !slots.at(from).must_queue_outbound() && slots.next_outward(from, Write::BIT) == HEAD
    }

    /// True if a write and a flush of the slot `from` reach the transport at once, without passing another handler.
    #[inline(always)]
    pub(crate) fn is_last_for_sends(&self, from: u32) -> bool {
        let slots = self.pipeline.slots.borrow();
        let slot = slots.at(from);
        let passes_none = slot.prev == HEAD
            || (slots.next_outward(from, Write::BIT) == HEAD
                && slots.next_outward(from, Flush::BIT) == HEAD);
        passes_none && !slot.must_queue_outbound()
    }

    /// Sends a flush from the slot `from`.
    #[inline(never)]
    pub(crate) fn flush_from(self: &Rc<Self>, from: u32) {
        if self.pipeline.may_stop_for(Flush::BIT) {
            self.send_from_outlined(from, Flush);
        } else {
            self.flush();
        }
    }

    /// Calls [`send_from`](Self::send_from) without inlining it.
    #[inline(never)]
    fn send_from_outlined<E: Event>(self: &Rc<Self>, from: u32, event: E) {
        self.send_from(from, event);
    }

    /// Calls a handler that was taken out of its slot, and puts it back. If events were queued meanwhile, or the
    /// handler was removed, [`fire_on_return`](Self::fire_on_return) does the rest.
    #[inline(always)]
    pub(crate) fn call(
        self: &Rc<Self>,
        at: u32,
        handler: Box<dyn Handler>,
        deliver: impl FnOnce(&mut dyn Handler, &Ctx<'_>),
    ) {
        let mut call = HandlerCall::begin(self, at, handler);
        call.run(deliver);
        let handler = call.end();
        let mut slots = self.pipeline.slots.borrow_mut();
        let slot = slots.at_mut(at);
        if slot.state != SlotState::Removed && !slot.has_backlog() {
            slot.end_call(handler);
        } else {
            drop(slots);
            self.fire_on_return(at, handler);
        }
    }

    /// Removes a live slot: at once, or when its handler returns if it is running.
    pub(crate) fn remove_slot(self: &Rc<Self>, at: u32) {
        self.pipeline.removals.set(self.pipeline.removals.get().wrapping_add(1));
        let mut slots = self.pipeline.slots.borrow_mut();
        let slot = slots.at_mut(at);
        slot.state = SlotState::Removed;
        // A backlog keeps its place: later events queue after it, and skip the handler in order (rule 4).
        let stops_for = if slot.has_backlog() { Events::ALL } else { Events::NONE };
        self.pipeline.add_stop_events(stops_for);
        slots.set_stops_for(at, stops_for);
        if let Some(handler) = slots.at_mut(at).begin_call() {
            drop(slots);
            self.finish_call(at, handler);
        }
    }

    /// Unlinks a slot and drops its contents; queued events fail. Destructors run outside of any borrow.
    pub(crate) fn discard_slot(self: &Rc<Self>, at: u32, handler: Option<Box<dyn Handler>>) {
        let info = self.pipeline.slots.borrow_mut().unlink(at);
        let type_name = info.as_ref().map_or("handler", |info| info.handler_type.name());
        let cold = info.and_then(|info| info.take_cold());
        for timer in cold.iter().flat_map(|cold| &cold.timers) {
            self.here.sender().take_back(timer.key);
        }
        if let Some(handler) = handler {
            self.drop_catching_panic(type_name, handler);
        }
        if let Some(ColdSlotState { backlog, suspended, on_return, .. }) = cold.map(|cold| *cold) {
            self.drop_catching_panic(type_name, suspended);
            self.drop_catching_panic("message", on_return);
            self.fail_backlog(backlog);
        }
        if self.pipeline.is_removal_waiting.take() {
            self.remove_handlers_later();
        }
    }

    /// Returns the name and the type of the handler that panicked, and clears the record.
    pub(crate) fn take_panicked_handler(&self) -> (String, &'static str) {
        let slots = self.pipeline.slots.borrow();
        let slot = slots.at(self.pipeline.panicked_slot.replace(HEAD)).info();
        let known = slot.map(|info| (info.name.to_string(), info.handler_type.name()));
        known.unwrap_or_else(|| (String::from("channel"), "channel"))
    }

    /// Drops the handlers that a panic has passed through. They were put back during the unwinding.
    pub(crate) fn discard_poisoned_slots(self: &Rc<Self>) {
        while let Some(at) = self.find_poisoned_slot() {
            let (handler, link) = {
                let mut slots = self.pipeline.slots.borrow_mut();
                let link = slots.at(at).info().and_then(HandlerInfo::link);
                (slots.at_mut(at).handler.take(), link)
            };
            self.discard_slot(at, handler);
            // The remote half of an offloaded handler did not panic: it is removed in the usual way.
            if let Some(link) = link {
                link.send_remove();
            }
        }
    }

    /// True if a handler that a panic has passed through was not dropped yet.
    pub(crate) fn has_poisoned_slot(&self) -> bool {
        self.find_poisoned_slot().is_some()
    }

    /// Returns a poisoned slot. Searches from the start each time: a destructor may call the channel, and a panic
    /// in that call discards poisoned slots too.
    fn find_poisoned_slot(&self) -> Option<u32> {
        let slots = self.pipeline.slots.borrow();
        slots.linked().find(|at| slots.at(*at).state == SlotState::Poisoned)
    }
}

/// A handler that is out of its slot for a call. If the call panics, the handler is put back and its slot is marked
/// as poisoned. It is dropped when the unwinding is over, because a destructor that panics during an unwinding aborts
/// the process.
pub(super) struct HandlerCall<'a> {
    core: &'a Rc<ChannelCore>,
    at: u32,
    /// `None` once the call has ended.
    handler: Option<Box<dyn Handler>>,
}

impl<'a> HandlerCall<'a> {
    #[inline(always)]
    pub(super) fn begin(core: &'a Rc<ChannelCore>, at: u32, handler: Box<dyn Handler>) -> Self {
        Self { core, at, handler: Some(handler) }
    }

    #[inline(always)]
    pub(super) fn run(&mut self, deliver: impl FnOnce(&mut dyn Handler, &Ctx<'_>)) {
        if let Some(handler) = &mut self.handler {
            deliver(&mut **handler, &Ctx::new(self.core, self.at));
        }
    }

    #[inline(always)]
    pub(super) fn end(mut self) -> Box<dyn Handler> {
        let handler = self.handler.take();
        // The handler was taken, so the destructor has nothing to do: `forget` saves its check on the common path.
        std::mem::forget(self);
        match handler {
            Some(handler) => handler,
            None => unreachable!("only this method takes the handler"),
        }
    }
}

impl Drop for HandlerCall<'_> {
    #[cold]
    fn drop(&mut self) {
        if let Some(handler) = self.handler.take() {
            // The innermost call unwinds first: its handler is the one that panicked.
            let panicked_slot = &self.core.pipeline.panicked_slot;
            panicked_slot.set(if panicked_slot.get() == HEAD {
                self.at
            } else {
                panicked_slot.get()
            });
            let mut slots = self.core.pipeline.slots.borrow_mut();
            let slot = slots.at_mut(self.at);
            slot.handler = Some(handler);
            slot.state = SlotState::Poisoned;
            slots.set_stops_for(self.at, Events::NONE);
            drop(slots);
            // The panic may be caught outside of the channel, which would not learn of it otherwise.
            self.core.mark_deferred(DeferredWork::POISONED);
        }
    }
}
