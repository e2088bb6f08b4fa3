//! What must hold at the end of every run, whatever happened in it.

use std::sync::{Mutex, PoisonError};

use waterwheel_channel::{ChannelFuture, ManualEventLoop};
use waterwheel_executor::{Fault, Report, Reporter};

use super::shared_state::{PLANNED_PANIC, RunState};

/// What a channel says that closes because of a panic that somebody else has caught, and reported.
const REPORTED_BEFORE: &str = "a panic that was caught and reported before it reached the channel";

/// What is wrong, in words.
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

/// Errors that nobody deals with belong to the game, and the panics that were drawn. A panic of anybody
/// else is the engine's.
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

/// Nothing is left to do, and every channel and future has come to its end.
pub(crate) fn check_all_is_over(
    violations: &Violations,
    run_state: &RunState,
    event_loop: &ManualEventLoop,
    closed: &[ChannelFuture],
) {
    let registered = event_loop.event_loop().metrics().channels;
    violations.unless(event_loop.is_idle(), || String::from("the loop is never idle"));
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

/// When the loop is gone as well, nothing is left of what was made.
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
