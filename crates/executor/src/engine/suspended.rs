//! A loop without a thread of its own, between two turns: it sleeps off any thread, and may rise on
//! another.

use std::rc::Rc;
use std::sync::Arc;

use super::LoopCore;
use crate::clock::Nanos;
use crate::engine::local_half::Local;
use crate::engine::shared_half::Shared;
use crate::wake::wake_word::Slept;

/// The owned half of a loop without a thread, between two turns: it may go to another one.
pub(crate) struct RestingCore<X: Send + 'static> {
    pub(crate) shared: Arc<Shared<X>>,
    local: Local<X>,
    last_activity: Option<Nanos>,
    was_active: bool,
    quiet_until: Nanos,
}

impl<X: Send + 'static> LoopCore<X> {
    /// Counts a turn, and ends the sleep that [`announce_sleep`](Self::announce_sleep) began.
    pub(crate) fn awake(&self) {
        self.shared.counters.turn();
        self.shared.inbox.awake();
    }

    /// Whether the loop sleeps now: there is nothing to do, and whoever brings something wakes it.
    pub(crate) fn announce_sleep(&mut self, until: Option<Nanos>) -> bool {
        self.give_back();
        if self.local.has_work() {
            return false;
        }
        self.shared.counters.sleep();
        self.shared.inbox.announce_sleep(until, || self.local.has_ready()) == Slept::Yes
    }

    /// Takes it off the thread. All that was taken must have been given back.
    pub(crate) fn rest(self) -> RestingCore<X> {
        let Self { shared, local, last_activity, was_active, quiet_until, .. } = self;
        let local = Rc::into_inner(local).expect("outside of a turn nobody holds the local half");
        RestingCore { shared, local, last_activity, was_active, quiet_until }
    }
}

impl<X: Send + 'static> RestingCore<X> {
    /// Brings it to this thread.
    pub(crate) fn rise(self) -> LoopCore<X> {
        let Self { shared, local, last_activity, was_active, quiet_until } = self;
        let core = LoopCore::without_thread_of(shared, Rc::new(local));
        LoopCore { last_activity, was_active, quiet_until, ..core }
    }
}
