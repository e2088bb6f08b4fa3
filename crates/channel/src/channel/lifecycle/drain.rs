//! Channels while their loop drains (L11): servers are closed, handlers are notified, writes are waited for.

use std::rc::Rc;

use waterwheel_executor::{Error, Nanos};

use crate::base::token::Token;
use crate::channel::core::ChannelCore;
use crate::channel::loop_channels::LoopChannels;
use crate::event_loop::drain::loop_drain::Drainable;
use crate::event_loop::drain::{Draining, LoopDraining};
use crate::pipeline::dispatch::event::UserEvent;
use crate::pipeline::slots::slot_list::HEAD;
use crate::pipeline::{Completion, Message, Msg};

impl Message for Draining {}

impl Drainable for LoopChannels {
    fn begin_drain(&self, deadline: Nanos) {
        let all = self.all();
        for core in &all {
            core.shared().holds.watch();
            core.stop_listening();
        }
        for core in &all {
            core.notify_draining(deadline);
        }
    }

    fn find_busy(&self, last: Option<Token>) -> Option<Token> {
        let table = self.table.borrow();
        let is_busy = |token: &Token| table.get(*token).is_some_and(|core| core.is_busy());
        last.filter(is_busy).or_else(|| table.tokens().find(is_busy))
    }

    fn count_busy(&self) -> usize {
        let table = self.table.borrow();
        table.tokens().filter(|token| table.get(*token).is_some_and(|core| core.is_busy())).count()
    }
}

impl ChannelCore {
    fn stop_listening(self: &Rc<Self>) {
        self.enter(|core| {
            if core.transport.borrow().is_listening() {
                core.close_after_writes(Some(Error::new(LoopDraining)), Completion::none());
            }
        });
    }

    fn notify_draining(self: &Rc<Self>, deadline: Nanos) {
        if self.lifecycle.get().is_open() {
            self.enter_event(HEAD, UserEvent(Msg::new(Draining { deadline })));
        }
    }

    /// True if a drain waits for the channel. A closed channel is waited for only while it is still writing.
    fn is_busy(&self) -> bool {
        if !self.lifecycle.get().is_open() {
            return self.is_lingering();
        }
        // A message with a pending size of zero is waited for too.
        self.shared.holds.has_holds()
            || self.total_pending() > 0
            || self.outbound.borrow().has_messages()
    }
}
