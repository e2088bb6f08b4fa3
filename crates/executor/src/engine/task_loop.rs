//! The turn of an executor without I/O: wait, run tasks, check for shutdown.

use std::time::Duration;

use crate::clock::Nanos;
use crate::engine::command::NoExtension;
use crate::engine::{LoopCore, LoopWork, PassLimit, TurnOutcome};
use crate::wake::park::Park;

/// The work of a loop without I/O.
pub(crate) struct TaskLoop<P> {
    park: P,
    /// The time without work after which the loop ends by itself; `None` for no limit.
    idle_limit: Option<Duration>,
}

impl<P: Park + 'static> TaskLoop<P> {
    pub(crate) fn new(park: P, idle_limit: Option<Duration>) -> Self {
        Self { park, idle_limit }
    }
}

impl<P: Park + 'static> LoopWork<NoExtension> for TaskLoop<P> {
    fn turn(&mut self, core: &mut LoopCore<NoExtension>) -> TurnOutcome {
        // A loop with pending timers is not idle, and need not wake up to check.
        let idle_limit = self.idle_limit.filter(|_| core.local.pending_timers() == 0);
        let idle_end = idle_limit.map(|limit| core.shared.clock.now().plus(limit));
        core.wait_until(idle_end, || false, &mut self.park);
        core.run_tasks(PassLimit::Queued, &mut |none| match none {});
        if idle_end.is_some_and(|end| core.is_idle_since(end)) {
            core.shared.end_if_idle();
        }
        core.check_shutdown()
    }

    fn on_command(&mut self, none: NoExtension) {
        match none {}
    }
}

impl LoopCore<NoExtension> {
    fn is_idle_since(&self, end: Nanos) -> bool {
        !self.was_active
            && !self.local.has_work()
            && self.local.pending_timers() == 0
            && self.shared.clock.now() >= end
    }
}
