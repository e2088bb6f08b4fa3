//! Timers of handlers: they carry a tag instead of a closure, and are cancelled when the handler is removed.

use std::rc::Rc;
use std::time::Duration;

use waterwheel_executor::TimerKey;

use crate::channel::core::ChannelCore;
use crate::event_loop::command::LoopCommand;

/// Identifies a timer of a handler, to [cancel](crate::Ctx::cancel) it. Returned by
/// [`Ctx::schedule`](crate::Ctx::schedule).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(Option<TimerKey>);

/// A timer that is not due yet, in the list of its slot.
#[derive(Clone, Copy)]
pub(crate) struct SlotTimer {
    /// Unique within the channel. A timer that fires is found by this number and the slot's index, which fit into
    /// one command together with the channel's token. If another handler uses the slot by then, it has no timer of
    /// this number.
    number: u32,
    tag: u32,
    pub(crate) key: TimerKey,
}

impl ChannelCore {
    pub(crate) fn schedule(self: &Rc<Self>, at: u32, delay: Duration, tag: u32) -> TimerId {
        let due = self.here.now().plus(delay);
        let number = self.pipeline.timers_set.get();
        self.pipeline.timers_set.set(number.wrapping_add(1));
        let on_time = self.on_timer_command(at, number);
        // The loop refuses timers after its last pass; no timer fires after that.
        let key = self.here.sender().send_at(due, on_time).ok();
        let mut slots = self.pipeline.slots.borrow_mut();
        if let (Some(key), Some(info)) = (key, slots.at_mut(at).info_mut()) {
            info.cold_mut().timers.push(SlotTimer { number, tag, key });
        }
        TimerId(key)
    }

    fn on_timer_command(&self, at: u32, number: u32) -> LoopCommand {
        let token = self.token();
        LoopCommand::new(move |here| {
            here.channels().with(token, |core| core.enter(|core| core.on_timer(at, number)));
        })
    }

    pub(crate) fn cancel_timer(&self, at: u32, timer: TimerId) -> bool {
        let Some(key) = timer.0 else { return false };
        let timer = self.take_timer(at, |own| own.key == key);
        if timer.is_some() {
            // The loop no longer knows a timer that is due, and waits for a suspended delivery.
            let _ = self.here.sender().take_back(key);
        }
        timer.is_some()
    }

    /// Calls the `on_timer` of the handler whose timer is due, unless the handler was removed.
    fn on_timer(self: &Rc<Self>, at: u32, number: u32) {
        if !self.has_timer(at, number) {
            return;
        }
        let Some(handler) = self.pipeline.slots.borrow_mut().at_mut(at).begin_call() else {
            // The delivery of a long backlog is suspended: the timer follows when it has gone on. A loop that has
            // ended rejects the command, and fires no timer.
            let _ = self.here.sender().send(self.on_timer_command(at, number));
            return;
        };
        let Some(timer) = self.take_timer(at, |own| own.number == number) else {
            unreachable!("the timer was found, and nothing ran since")
        };
        self.call(at, handler, |handler, ctx| {
            if let Err(error) = handler.on_timer(ctx, timer.tag) {
                ctx.on_handler_failed(handler, crate::pipeline::Events::NONE, error);
            }
        });
    }

    fn has_timer(&self, at: u32, number: u32) -> bool {
        let slots = self.pipeline.slots.borrow();
        let cold = slots.at(at).info().and_then(|info| info.cold());
        cold.is_some_and(|cold| cold.timers.iter().any(|own| own.number == number))
    }

    fn take_timer(&self, at: u32, matches: impl Fn(&SlotTimer) -> bool) -> Option<SlotTimer> {
        let mut slots = self.pipeline.slots.borrow_mut();
        let timers = &mut slots.at_mut(at).info_mut()?.cold_mut().timers;
        let found = timers.iter().position(matches)?;
        Some(timers.swap_remove(found))
    }
}
