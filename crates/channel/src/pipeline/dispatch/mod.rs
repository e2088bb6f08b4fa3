//! How an event goes from slot to slot.
//!
//! ```text
//!   go ──► walk to the next slot that stops for it ──► its handler is there:   taken out, called, put back
//!    ▲                                            └──► its handler runs:       the event waits (rule 2)
//!    └────────────── ctx.fire_…, ctx.write, … ◄──────── the handler
//! ```
//!
//! Nothing is borrowed while a handler runs (rule 1). A handler runs at most once at a time, so the
//! stack is never deeper than the pipeline is long (rule 7).

pub(crate) mod backlog_delivery;
pub(crate) mod event;
pub(crate) mod watched_handler;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use self::event::{Event, Flush, Read, ReadComplete, Write};
use super::completion::Completion;
use super::context::Ctx;
use super::event_set::Events;
use super::handler::Handler;
use super::message::Msg;
use super::slots::slot::{About, More, SlotState};
use super::slots::slot_list::{HEAD, Slots, TAIL};
use crate::channel::core::{ChannelCore, DeferredWork};

/// The handlers of a channel.
pub(crate) struct Handlers {
    pub(crate) slots: RefCell<Slots>,
    /// What some slot has ever stopped for, which is everything once something had to wait: nothing
    /// else needs a walk.
    stopped_for: Cell<Events>,
    /// Whose handler has panicked: [`HEAD`] if none has.
    culprit: Cell<u32>,
    /// How many handlers have got a name of their type's.
    pub(crate) named: Cell<u32>,
    /// They are being removed, all of them, and no others may come.
    pub(crate) closed: Cell<bool>,
    /// The removal of all of them goes on when the next slot is gone.
    pub(crate) removal_waits: Cell<bool>,
    /// True if handlers that take long to be removed are not waited for.
    pub(crate) hurries: Cell<bool>,
    /// How many have been removed, so that one can tell cheaply that it was not.
    pub(crate) removals: Cell<u32>,
    /// How many timers they have set, to number them.
    pub(crate) timers: Cell<u32>,
}

impl Handlers {
    pub(crate) fn new() -> Self {
        Self {
            slots: RefCell::new(Slots::new()),
            stopped_for: Cell::new(Events::NONE),
            culprit: Cell::new(HEAD),
            named: Cell::new(0),
            removals: Cell::new(0),
            timers: Cell::new(0),
            closed: Cell::new(false),
            removal_waits: Cell::new(false),
            hurries: Cell::new(false),
        }
    }
}

impl Handlers {
    /// Some slot stops for these from now on.
    pub(crate) fn will_stop_for(&self, events: Events) {
        self.stopped_for.set(self.stopped_for.get() | events);
    }

    /// False if no slot stops for this event.
    #[inline]
    pub(crate) fn may_stop_for(&self, event: Events) -> bool {
        self.stopped_for.get().contains(event)
    }
}

impl ChannelCore {
    /// Sends an event on its way from one end of the pipeline to the other.
    #[inline(always)]
    pub(crate) fn go_through<E: Event>(self: &Rc<Self>, event: E) {
        if self.handlers.may_stop_for(E::BIT) {
            self.walk(if E::INBOUND { HEAD } else { TAIL }, event);
        } else {
            event.arrive(self);
        }
    }

    /// Sends an event on its way, inward or outward, from this slot on.
    #[inline(always)]
    pub(crate) fn go<E: Event>(self: &Rc<Self>, from: u32, event: E) {
        let mut slots = self.handlers.slots.borrow_mut();
        let (at, end) = if E::INBOUND {
            (slots.inward(from, E::BIT), TAIL)
        } else {
            if slots.at(from).holds_back() {
                return self.wait(slots, from, event.any(), false);
            }
            (slots.outward(from, E::BIT), HEAD)
        };
        if at == end {
            drop(slots);
            return event.arrive(self);
        }
        match slots.at_mut(at).begin_call() {
            Some(handler) => {
                drop(slots);
                self.call(at, handler, |handler, ctx| event.deliver(handler, ctx));
            }
            None => {
                // Removed meanwhile: it goes past, but not past what came before.
                let for_handler = slots.at(at).state != SlotState::Removed;
                self.wait(slots, at, event.any(), for_handler);
            }
        }
    }

    /// Sends what was read on its way, as the last of its round. Mostly the same handler stops for it and
    /// for the end of the round, which it is then told without being put back in between: whether it was.
    #[inline(always)]
    pub(crate) fn go_as_last(self: &Rc<Self>, msg: Msg) -> bool {
        let mut slots = self.handlers.slots.borrow_mut();
        let at = slots.first_reader();
        let handler = if at == TAIL { None } else { slots.at_mut(at).begin_call() };
        drop(slots);
        let Some(handler) = handler else {
            self.walk(HEAD, Read(msg));
            return false;
        };
        let mut told = false;
        self.call(at, handler, |handler, ctx| {
            Read(msg).deliver(handler, ctx);
            told = self.handlers.slots.borrow().is_next(at) && self.take_end_of_round();
            if told {
                ReadComplete.deliver(handler, ctx);
            }
        });
        told
    }

    /// A write that nobody waits for, and a flush: mostly the last steps of an answer. One copy of the
    /// way does for all handlers, and each step is one call.
    #[inline(never)]
    pub(crate) fn write_from(self: &Rc<Self>, from: u32, msg: Msg) {
        if self.handlers.may_stop_for(Write::BIT) {
            self.walk(from, Write(msg, Completion::none()));
        } else {
            self.write_unawaited(msg);
        }
    }

    #[inline(never)]
    pub(crate) fn flush_from(self: &Rc<Self>, from: u32) {
        if self.handlers.may_stop_for(Flush::BIT) {
            self.walk(from, Flush);
        } else {
            self.flush();
        }
    }

    #[inline(never)]
    fn walk<E: Event>(self: &Rc<Self>, from: u32, event: E) {
        self.go(from, event);
    }

    /// Calls a handler that was taken out of its slot, and puts it back.
    #[inline(always)]
    pub(crate) fn call(
        self: &Rc<Self>,
        at: u32,
        handler: Box<dyn Handler>,
        deliver: impl FnOnce(&mut dyn Handler, &Ctx<'_>),
    ) {
        let mut call = Call::begin(self, at, handler);
        call.run(deliver);
        let handler = call.end();
        let mut slots = self.handlers.slots.borrow_mut();
        let slot = slots.at_mut(at);
        if slot.state != SlotState::Removed && !slot.has_backlog() {
            slot.end_call(handler);
        } else {
            drop(slots);
            self.finish_call(at, handler);
        }
    }

    /// Removes a live slot: at once if its handler does not run, else when it returns.
    pub(crate) fn retire(self: &Rc<Self>, at: u32) {
        self.handlers.removals.set(self.handlers.removals.get().wrapping_add(1));
        let mut slots = self.handlers.slots.borrow_mut();
        let slot = slots.at_mut(at);
        slot.state = SlotState::Removed;
        // What waits here keeps its place: others stop behind it, and go past it in turn (rule 4).
        let stops = if slot.has_backlog() { Events::ALL } else { Events::NONE };
        self.handlers.will_stop_for(stops);
        slots.set_stops(at, stops);
        if let Some(handler) = slots.at_mut(at).begin_call() {
            drop(slots);
            self.finish_call(at, handler);
        }
    }

    /// Takes a slot out of the order, with all that is in it. Destructors run outside of any borrow.
    pub(crate) fn discard(self: &Rc<Self>, at: u32, handler: Option<Box<dyn Handler>>) {
        let about = self.handlers.slots.borrow_mut().unlink(at);
        let type_name = about.as_ref().map_or("handler", |about| about.kind.name());
        let more = about.and_then(|about| about.take_more());
        for timer in more.iter().flat_map(|more| &more.timers) {
            self.here.sender().take_back(timer.key);
        }
        if let Some(handler) = handler {
            self.drop_catching_panic(type_name, handler);
        }
        if let Some(More { backlog, parked, .. }) = more.map(|more| *more) {
            self.drop_catching_panic(type_name, parked);
            self.fail_backlog(backlog);
        }
        if self.handlers.removal_waits.take() {
            self.remove_handlers_later();
        }
    }

    /// After a panic: the name and the type of the handler it happened in.
    pub(crate) fn take_culprit(&self) -> (String, &'static str) {
        let slots = self.handlers.slots.borrow();
        let culprit = slots.at(self.handlers.culprit.replace(HEAD)).about();
        let known = culprit.map(|about| (about.name.to_string(), about.kind.name()));
        known.unwrap_or_else(|| (String::from("channel"), "channel"))
    }

    /// After a panic: the handlers it passed through have been put back, and are only dropped now.
    pub(crate) fn discard_poisoned(self: &Rc<Self>) {
        while let Some(at) = self.next_poisoned() {
            let (handler, link) = {
                let mut slots = self.handlers.slots.borrow_mut();
                let link = slots.at(at).about().and_then(About::link);
                (slots.at_mut(at).handler.take(), link)
            };
            self.discard(at, handler);
            // Its other half, on its executor, has no part in it.
            if let Some(link) = link {
                link.dismiss();
            }
        }
    }

    pub(crate) fn has_poisoned(&self) -> bool {
        self.next_poisoned().is_some()
    }

    /// Looked for anew each time: a destructor may call the channel, and a panic there discards them too.
    fn next_poisoned(&self) -> Option<u32> {
        let slots = self.handlers.slots.borrow();
        slots.linked().find(|at| slots.at(*at).state == SlotState::Poisoned)
    }
}

/// A handler out of its slot. A panic puts it back, poisoned: to be dropped when the unwinding is
/// over, because a destructor that panics meanwhile would end the process.
pub(super) struct Call<'a> {
    core: &'a Rc<ChannelCore>,
    at: u32,
    /// `None` once the call has ended.
    handler: Option<Box<dyn Handler>>,
}

impl<'a> Call<'a> {
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
        // Spares the common way out a destructor that finds nothing to do.
        std::mem::forget(self);
        match handler {
            Some(handler) => handler,
            None => unreachable!("taken at its end only"),
        }
    }
}

impl Drop for Call<'_> {
    #[cold]
    fn drop(&mut self) {
        if let Some(handler) = self.handler.take() {
            // The innermost comes first.
            let culprit = &self.core.handlers.culprit;
            culprit.set(if culprit.get() == HEAD { self.at } else { culprit.get() });
            let mut slots = self.core.handlers.slots.borrow_mut();
            let slot = slots.at_mut(self.at);
            slot.handler = Some(handler);
            slot.state = SlotState::Poisoned;
            slots.set_stops(self.at, Events::NONE);
            drop(slots);
            // Whoever catches the panic need not be the channel.
            self.core.mark_deferred(DeferredWork::POISONED);
        }
    }
}
