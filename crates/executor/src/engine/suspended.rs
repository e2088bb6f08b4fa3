//! A pooled loop between two turns: it holds no thread, and may resume on a different one.

use std::rc::Rc;
use std::sync::Arc;

use super::LoopCore;
use crate::clock::Nanos;
use crate::engine::local_half::LocalHalf;
use crate::engine::shared_half::SharedHalf;
use crate::wake::wake_word::SleepOutcome;

/// The owned half of a pooled loop between two turns. It is `Send`.
pub(crate) struct SuspendedCore<X: Send + 'static> {
    pub(crate) shared: Arc<SharedHalf<X>>,
    local: LocalHalf<X>,
    last_activity: Option<Nanos>,
    was_active: bool,
    quiet_until: Nanos,
}

impl<X: Send + 'static> LoopCore<X> {
    /// Counts a turn, and ends the sleep that [`announce_sleep`](Self::announce_sleep) began.
    pub(crate) fn set_awake(&self) {
        self.shared.counters.count_turn();
        self.shared.inbox.set_awake();
    }

    /// Announces a sleep. Returns true if the loop is asleep: there is nothing to do, and the next submission
    /// wakes it.
    pub(crate) fn announce_sleep(&mut self, until: Option<Nanos>) -> bool {
        self.return_admissions();
        if self.local.has_work() {
            return false;
        }
        self.shared.counters.count_sleep();
        self.shared.inbox.announce_sleep(until, || self.local.has_ready()) == SleepOutcome::Asleep
    }

    /// Suspends the loop, which then holds no thread. All admissions of taken commands must have been returned.
    pub(crate) fn suspend(self) -> SuspendedCore<X> {
        let Self { shared, local, last_activity, was_active, quiet_until, .. } = self;
        let local = Rc::into_inner(local).expect("between two turns the local half has one owner");
        SuspendedCore { shared, local, last_activity, was_active, quiet_until }
    }
}

impl<X: Send + 'static> SuspendedCore<X> {
    /// Resumes the loop on the calling thread.
    pub(crate) fn resume(self) -> LoopCore<X> {
        let Self { shared, local, last_activity, was_active, quiet_until } = self;
        let core = LoopCore::from_halves(shared, Rc::new(local));
        LoopCore { last_activity, was_active, quiet_until, ..core }
    }
}
