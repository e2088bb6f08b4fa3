//! Invariants that hold at the end of every run.

use std::sync::{Mutex, PoisonError};

use waterwheel_channel::{ChannelFuture, ManualEventLoop};
use waterwheel_executor::{Fault, Report, Reporter};

use super::shared_state::{PLANNED_PANIC, RunState};

/// The cause of a close after a panic that other code caught and reported.
const REPORTED_BEFORE: &str = "a panic that was caught and reported before it reached the channel";

/// Violated invariants, as text.
#[derive(Default)]
pub(crate) struct Violations(Mutex<Vec<String>>);

impl Violations {
    pub(crate) fn add(&self, violation: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
    }

    fn unless(&self, fine: bool, violation: impl FnOnce() -> String) {
        if !fine {
            self.add(violation());
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Unhandled errors and planned panics are expected. Any other panic is a defect of the engine.
impl Reporter for Violations {
    fn report(&self, report: &Report<'_>) {
        match &report.fault {
            Fault::Unhandled(_) => {}
            Fault::Panicked { message, .. } if message.contains(PLANNED_PANIC) => {}
            Fault::Panicked { message, .. } if message.contains(REPORTED_BEFORE) => {}
            fault => self.add(fault.to_string()),
        }
    }
}

/// Checks that the loop is idle and that every channel is closed and every future done.
pub(crate) fn check_all_is_over(
    violations: &Violations,
    run_state: &RunState,
    event_loop: &ManualEventLoop,
    closed: &[ChannelFuture],
) {
    let registered = event_loop.event_loop().metrics().channels;
    violations.unless(event_loop.is_idle(), || String::from("the loop never becomes idle"));
    violations.unless(registered == 0, || format!("{registered} channels are still registered"));
    for channel in run_state.channels.borrow().iter() {
        violations.unless(channel.closed().is_done(), || format!("{channel:?} is not closed"));
        let pending = channel.pending_bytes();
        violations.unless(pending == 0, || format!("{pending} bytes are pending in {channel:?}"));
    }
    for future in closed.iter().chain(run_state.futures.borrow().iter()) {
        violations.unless(future.is_done(), || format!("{future:?} is never done"));
    }
}

/// Checks that every handler, message and completion is gone once the loop is dropped.
pub(crate) fn check_nothing_is_left(violations: &Violations, run_state: &RunState) {
    let counts = &run_state.counts;
    for (what, count) in [
        ("handlers", &counts.handlers),
        ("messages", &counts.messages),
        ("untold completions", &counts.uncompleted),
    ] {
        let left = count.get();
        violations.unless(left == 0, || format!("{left} {what} are left"));
    }
}
