//! Timers of handlers: a tag and no closure, gone with their slot.

use std::rc::Rc;
use std::time::Duration;

use waterwheel_executor::TimerKey;

use crate::channel::core::ChannelCore;
use crate::event_loop::command::LoopCommand;

/// A timer of a handler, to take it back by. Made by [`Ctx::schedule`](crate::Ctx::schedule).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(Option<TimerKey>);

/// A timer that is not due yet, as its slot knows it.
#[derive(Clone, Copy)]
pub(crate) struct SlotTimer {
    /// Tells the timers of a channel apart. What is due goes by this and the slot's index, which fit a command
    /// together with the channel: another handler in the same place has no timer of this number.
    number: u32,
    tag: u32,
    pub(crate) key: TimerKey,
}

impl ChannelCore {
    pub(crate) fn schedule(self: &Rc<Self>, at: u32, delay: Duration, tag: u32) -> TimerId {
        let due = self.here.now().plus(delay);
        let number = self.pipeline.timers_set.get();
        self.pipeline.timers_set.set(number.wrapping_add(1));
        let token = self.token();
        let on_time = LoopCommand::new(move |here| {
            here.channels().with(token, |core| core.enter(|core| core.on_timer(at, number)));
        });
        // Refused after the loop's last pass: then nothing is due any more.
        let key = self.here.sender().send_at(due, on_time).ok();
        let mut slots = self.pipeline.slots.borrow_mut();
        if let (Some(key), Some(info)) = (key, slots.at_mut(at).info_mut()) {
            info.cold_mut().timers.push(SlotTimer { number, tag, key });
        }
        TimerId(key)
    }

    pub(crate) fn cancel_timer(&self, at: u32, timer: TimerId) -> bool {
        let Some(key) = timer.0 else { return false };
        let timer = self.take_timer(at, |own| own.key == key);
        timer.is_some() && self.here.sender().take_back(key).is_some()
    }

    /// A timer is due: it goes to its handler, unless that has been removed.
    fn on_timer(self: &Rc<Self>, at: u32, number: u32) {
        let Some(timer) = self.take_timer(at, |own| own.number == number) else { return };
        let Some(handler) = self.pipeline.slots.borrow_mut().at_mut(at).begin_call() else {
            return;
        };
        self.call(at, handler, |handler, ctx| {
            if let Err(error) = handler.on_timer(ctx, timer.tag) {
                ctx.handler_failed(handler, crate::pipeline::Events::NONE, error);
            }
        });
    }

    fn take_timer(&self, at: u32, matches: impl Fn(&SlotTimer) -> bool) -> Option<SlotTimer> {
        let mut slots = self.pipeline.slots.borrow_mut();
        let timers = &mut slots.at_mut(at).info_mut()?.cold_mut().timers;
        let found = timers.iter().position(matches)?;
        Some(timers.swap_remove(found))
    }
}
