//! Timers of handlers: a tag and no closure, gone with their slot.

use std::rc::Rc;
use std::time::Duration;

use waterwheel_executor::TimerKey;

use super::slots::SlotId;
use crate::channel::core::ChannelCore;
use crate::event_loop::command::{Ask, LoopCommand};
use crate::token::Token;

/// A timer of a handler, to take it back by. Made by [`Ctx::schedule`](super::Ctx::schedule).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(Option<TimerKey>);

/// Which handler of which channel a timer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandlerTimer {
    pub(crate) channel: Token,
    pub(crate) slot: SlotId,
    pub(crate) tag: u32,
    /// Tells the timers of a slot apart.
    number: u32,
}

impl ChannelCore {
    pub(crate) fn schedule(self: &Rc<Self>, at: u32, delay: Duration, tag: u32) -> TimerId {
        let slot = self.handlers.slots.borrow().id(at);
        let due = self.here.now().plus(delay);
        let number = self.handlers.timers.get();
        self.handlers.timers.set(number.wrapping_add(1));
        let timer = HandlerTimer { channel: self.token(), slot, tag, number };
        // Refused after the loop's last pass: then nothing is due any more.
        let key = self.here.sender().send_at(due, LoopCommand(Ask::Timer(timer))).ok();
        let mut slots = self.handlers.slots.borrow_mut();
        if let (Some(key), Some(about)) = (key, slots.at_mut(at).about_mut()) {
            about.more_mut().timers.push((number, key));
        }
        TimerId(key)
    }

    pub(crate) fn cancel_timer(&self, at: u32, timer: TimerId) -> bool {
        let Some(key) = timer.0 else { return false };
        let mine = self.forget_timer(at, |(_, own)| own == key);
        mine && self.here.sender().take_back(key).is_some()
    }

    /// A timer is due: it goes to its handler, unless that has been removed.
    pub(crate) fn on_timer(self: &Rc<Self>, timer: HandlerTimer) {
        let mut slots = self.handlers.slots.borrow_mut();
        let Some(at) = slots.find(timer.slot) else { return };
        let Some(handler) = slots.at_mut(at).begin_call() else { return };
        drop(slots);
        self.forget_timer(at, |(number, _)| number == timer.number);
        self.call(at, handler, |handler, ctx| {
            if let Err(error) = handler.on_timer(ctx, timer.tag) {
                ctx.handler_failed(handler, super::Events::NONE, error);
            }
        });
    }

    fn forget_timer(&self, at: u32, is_it: impl Fn((u32, TimerKey)) -> bool) -> bool {
        let mut slots = self.handlers.slots.borrow_mut();
        let Some(about) = slots.at_mut(at).about_mut() else { return false };
        let timers = &mut about.more_mut().timers;
        let found = timers.iter().position(|timer| is_it(*timer));
        found.map(|found| timers.swap_remove(found)).is_some()
    }
}
