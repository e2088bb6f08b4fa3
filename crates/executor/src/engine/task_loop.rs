//! The loop of an executor without I/O: wait, tasks, shutdown check, in a row.

use std::time::Duration;

use crate::clock::Nanos;
use crate::engine::command::NoExtension;
use crate::engine::{LoopCore, Pass, Turn, Work};
use crate::wake::park::Park;

/// The loop of an executor without I/O.
pub(crate) struct TaskLoop<P> {
    park: P,
    /// Ends by itself after this long without work.
    idle_limit: Option<Duration>,
}

impl<P: Park + 'static> TaskLoop<P> {
    pub(crate) fn new(park: P, idle_limit: Option<Duration>) -> Self {
        Self { park, idle_limit }
    }
}

impl<P: Park + 'static> Work<NoExtension> for TaskLoop<P> {
    fn turn(&mut self, core: &mut LoopCore<NoExtension>) -> Turn {
        // While a timer waits it is not idle, and need not look at the clock every now and then.
        let idle_limit = self.idle_limit.filter(|_| core.local.timers() == 0);
        let idle_end = idle_limit.map(|limit| core.shared.clock.now().plus(limit));
        core.wait_until(idle_end, || false, &mut self.park);
        core.run_tasks(Pass::Queued, &mut |none| match none {});
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
            && self.local.timers() == 0
            && self.shared.clock.now() >= end
    }
}
