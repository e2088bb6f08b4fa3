//! The steps of a teardown: hooks, timers, accepted commands, loop-local values (`docs/SHUTDOWN.md`).

use super::LoopCore;
use crate::engine::command::{Command, SystemCommand, WheelEntry};
use crate::error::Error;
use crate::queue::admission::QueueDepth;
use crate::report::guard::guard_drop;

impl<X: Send + 'static> LoopCore<X> {
    /// Runs the pending hooks, and those that they add. Returns whether there were any.
    pub(crate) fn run_hooks(&self) -> bool {
        let mut any = false;
        loop {
            let hook = self.local.hooks.borrow_mut().take_first();
            let Some(hook) = hook else { return any };
            any = true;
            hook.call();
        }
    }

    /// Runs everything that was ever accepted. The inbox must be closed, so that this ends.
    pub(crate) fn run_accepted(&mut self, extension: &mut dyn FnMut(X)) {
        self.return_admissions();
        let inbox = &self.shared.inbox;
        while let Some(command) = inbox.next_accepted(|| self.local.pop()) {
            inbox.release(command.depth());
            let active = self.perform_guarded(command, extension);
            self.shared.counters.add_tasks(u64::from(active));
        }
        self.local.set_finished();
    }

    /// Cancels the pending timers: their futures complete, their closures are dropped. Timers that listeners
    /// schedule meanwhile are left to the next call, so that this call returns.
    pub(crate) fn cancel_timers(&self) {
        for _ in 0..self.local.pending_timers() {
            match self.local.take_any_timer() {
                Some(WheelEntry::Timer(timer)) => guard_drop(|| timer.cancel_unfired()),
                Some(WheelEntry::Extension(command)) => guard_drop(|| drop(command)),
                None => return,
            }
        }
    }

    /// Drops everything that was ever accepted, after the loop died. The inbox must be closed.
    pub(crate) fn drop_accepted(&mut self, cause: &Error) {
        self.return_admissions();
        let inbox = &self.shared.inbox;
        let pop_others = || loop {
            match self.local.pop()? {
                // Hooks run even after the loop died: the teardown runs them afterwards.
                Command::System(SystemCommand::AddHook(hook)) => {
                    inbox.release(QueueDepth::ONE_SYSTEM);
                    self.local.hooks.borrow_mut().add(*hook);
                }
                other => return Some(other),
            }
        };
        self.shared.drop_queued(pop_others, cause);
        self.local.set_finished();
    }

    /// Drops the loop-local values, on the loop.
    pub(crate) fn drop_loop_locals(&self) {
        if let Some(loop_locals) = &self.loop_locals {
            loop_locals.drop_all();
        }
    }
}
