//! The channels of a loop, and the end of the outermost call into one of them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use waterwheel_executor::Error;

use super::core::ChannelCore;
use super::error::ChannelError;
use super::handle::Channel;
use super::request::Request;
use crate::event_loop::local_loop::LoopShutDown;
use crate::pipeline::Completion;
use crate::token::{Slab, Token};

/// How deep channels may call each other, one inside the other, before the next call has to wait
/// (rule 7). Each level costs a few frames of the user's own; sixteen fit the smallest stacks in use.
const MAX_DEPTH: u32 = 16;

/// How often the work that calls leave behind is looked at before events and tasks have their turn
/// again: it may go on for ever, between two channels that answer each other.
const ROUNDS: usize = 16;

/// The channels of a loop. Touched on the loop only.
#[derive(Default)]
pub(crate) struct Channels {
    table: RefCell<Slab<Rc<ChannelCore>>>,
    /// Those with something left to do.
    listed: RefCell<VecDeque<Rc<ChannelCore>>>,
    depth: Cell<u32>,
    settling: Cell<bool>,
}

impl Channels {
    pub(crate) fn enter(&self, core: Rc<ChannelCore>) -> Token {
        self.table.borrow_mut().insert(core)
    }

    pub(crate) fn find(&self, token: Token) -> Option<Rc<ChannelCore>> {
        self.table.borrow().get(token).cloned()
    }

    /// Calls `f` with the channel, if it is still there; then does what that has left behind.
    pub(crate) fn with(&self, token: Token, f: impl FnOnce(&Rc<ChannelCore>)) {
        if let Some(core) = self.find(token) {
            f(&core);
            self.settle_if_outermost();
        }
    }

    /// Something is asked of a channel.
    pub(crate) fn perform(&self, token: Token, request: Request) {
        match self.find(token) {
            Some(core) => request.perform(&core),
            None => request.refuse(&Error::new(ChannelError::Closed { cause: None })),
        }
    }

    pub(crate) fn forget(&self, token: Token) {
        let forgotten = self.table.borrow_mut().remove(token);
        drop(forgotten);
    }

    pub(crate) fn len(&self) -> usize {
        self.table.borrow().len()
    }

    fn all(&self) -> Vec<Rc<ChannelCore>> {
        let table = self.table.borrow();
        table.tokens().filter_map(|token| table.get(token).cloned()).collect()
    }

    /// Those that are registered.
    pub(crate) fn registered(&self) -> Vec<Channel> {
        let all = self.all();
        all.iter().map(|core| core.channel()).filter(Channel::is_registered).collect()
    }

    // Calls into channels.

    pub(crate) fn is_too_deep(&self) -> bool {
        self.depth.get() >= MAX_DEPTH
    }

    pub(crate) fn descend(&self) {
        self.depth.set(self.depth.get() + 1);
    }

    pub(crate) fn ascend(&self) {
        self.depth.set(self.depth.get() - 1);
    }

    /// A channel has something left to do.
    pub(crate) fn list(&self, core: Rc<ChannelCore>) {
        self.listed.borrow_mut().push_back(core);
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.listed.borrow().is_empty()
    }

    /// If no call into a channel is under way, does what calls have left behind.
    #[inline]
    pub(crate) fn settle_if_outermost(&self) {
        if self.depth.get() == 0 && !self.settling.get() && self.has_work() {
            self.settle();
        }
    }

    fn settle(&self) {
        struct Settled<'a>(&'a Cell<bool>);
        impl Drop for Settled<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        self.settling.set(true);
        let _settled = Settled(&self.settling);
        for _ in 0..ROUNDS {
            let listed = self.listed.borrow().len();
            if listed == 0 {
                return;
            }
            for _ in 0..listed {
                let Some(core) = self.listed.borrow_mut().pop_front() else { return };
                core.settle();
            }
        }
    }

    // The end.

    /// The shutdown has begun: all channels are closed, after what was flushed.
    pub(crate) fn close_all(&self) {
        for core in self.all() {
            core.close_after_writes(Some(Error::new(LoopShutDown)), Completion::none());
        }
        self.settle_if_outermost();
    }

    /// The loop is over: whoever is left is told, whatever is still in flight.
    pub(crate) fn end_all(&self) {
        self.close_all();
        for core in self.all() {
            core.transport_closed();
        }
        while self.has_work() && self.len() > 0 {
            self.settle_if_outermost();
        }
        let (table, listed) = (self.table.take(), self.listed.take());
        drop((table, listed));
    }
}
