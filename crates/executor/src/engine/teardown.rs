//! What a loop that ends does with all that is left: hooks, timers, tasks, and values of its own
//! (`docs/SHUTDOWN.md`).

use super::LoopCore;
use crate::engine::command::{Command, Due, System};
use crate::error::Error;
use crate::queue::admission::Depth;
use crate::report::guard::guard_drop;

impl<X: Send + 'static> LoopCore<X> {
    /// Runs the hooks that wait, and those they add. Whether there were any.
    pub(crate) fn run_hooks(&self) -> bool {
        let mut any = false;
        loop {
            let hook = self.local.hooks.borrow_mut().take_first();
            let Some(hook) = hook else { return any };
            any = true;
            hook.call();
        }
    }

    /// Runs everything that was ever accepted. The door must be shut: then this ends.
    pub(crate) fn run_stragglers(&mut self, extension: &mut dyn FnMut(X)) {
        self.give_back();
        let inbox = &self.shared.inbox;
        while let Some(command) = inbox.next_straggler(|| self.local.pop()) {
            inbox.leave(command.weight());
            let active = self.perform_guarded(command, extension);
            self.shared.counters.tasks(u64::from(active));
        }
        self.local.finish();
    }

    /// Cancels the timers that stand now: their futures are told, their closures go. Those that
    /// listeners schedule meanwhile wait for the next pass, so that this ends.
    pub(crate) fn cancel_timers(&self) {
        for _ in 0..self.local.timers() {
            match self.local.take_any_timer() {
                Some(Due::Timer(timer)) => guard_drop(|| timer.abandon()),
                Some(Due::Extension(command)) => guard_drop(|| drop(command)),
                None => return,
            }
        }
    }

    /// Drops everything that was ever accepted, after the loop died. The door must be shut.
    pub(crate) fn drop_stragglers(&mut self, cause: &Error) {
        self.give_back();
        let inbox = &self.shared.inbox;
        let pop_others = || loop {
            match self.local.pop()? {
                // Hooks run even now: the teardown comes to them.
                Command::System(System::AddHook(hook)) => {
                    inbox.leave(Depth::ONE_SYSTEM);
                    self.local.hooks.borrow_mut().add(*hook);
                }
                other => return Some(other),
            }
        };
        self.shared.drop_leftovers(pop_others, cause);
        self.local.finish();
    }

    /// Drops the loop-local values, here on the loop.
    pub(crate) fn drop_loop_locals(&self) {
        if let Some(loop_locals) = &self.loop_locals {
            loop_locals.drop_all();
        }
    }
}
