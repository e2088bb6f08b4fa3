//! What the loops report: what was caused is counted, anything else fails the test.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterwheel::executor::{Fault, Report, Reporter};

use crate::line::PATIENCE;

/// What a scene causes to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// A handler panicked.
    Panic,
    /// There was no descriptor for a connection, or for a new selector.
    NoDescriptor,
    /// A wait failed.
    FailedWait,
    /// The selector was rebuilt.
    Rebuilt,
    /// The handler that holds its loop on purpose.
    Held,
    /// A connection was accepted by a loop that drains.
    Draining,
}

/// Collects reports. Loops write, scenes wait.
#[derive(Default)]
pub(crate) struct Reports {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    caused: BTreeMap<Cause, u64>,
    unexpected: Vec<String>,
}

impl Reports {
    /// How often this was reported.
    pub(crate) fn count(&self, cause: Cause) -> u64 {
        self.lock().count(cause)
    }

    /// Waits until this was reported more often than that.
    #[track_caller]
    pub(crate) fn wait_beyond(&self, cause: Cause, count: u64) {
        assert!(self.wait(cause, count, PATIENCE), "{cause:?} was not reported");
    }

    /// Whether this was reported more often than that, a hundredth of a second from now at the latest.
    pub(crate) fn wait_a_little(&self, cause: Cause, count: u64) -> bool {
        self.wait(cause, count, Duration::from_millis(10))
    }

    fn wait(&self, cause: Cause, count: u64, time: Duration) -> bool {
        let state = self.lock();
        let waited =
            self.changed.wait_timeout_while(state, time, |state| state.count(cause) <= count);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let unexpected = std::mem::take(&mut self.lock().unexpected);
        assert!(unexpected.is_empty(), "unexpected reports: {unexpected:#?}");
    }

    pub(crate) fn summary(&self) -> String {
        format!("{:?}", self.lock().caused)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&self, cause: Cause) -> u64 {
        self.caused.get(&cause).copied().unwrap_or(0)
    }
}

impl Reporter for Reports {
    fn report(&self, report: &Report<'_>) {
        let mut state = self.lock();
        match cause(report) {
            Some(cause) => *state.caused.entry(cause).or_default() += 1,
            None => state.unexpected.push(format!("{}: {}", report.executor, report.fault)),
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// What it was caused by, if it was on purpose.
fn cause(report: &Report<'_>) -> Option<Cause> {
    let text = report.fault.to_string();
    let faulty = report.executor.starts_with("faulty");
    match &report.fault {
        Fault::Panicked { message, .. } => message.contains("on purpose").then_some(Cause::Panic),
        Fault::Slow(work) => {
            let place = work.activity.call_site.as_ref()?;
            (&*place.name == "slow").then_some(Cause::Held)
        }
        Fault::Unhandled(_) | Fault::Driver(_) if text.contains("Too many open files") => {
            Some(Cause::NoDescriptor)
        }
        Fault::Unhandled(_) if text.contains("draining") => Some(Cause::Draining),
        Fault::Driver(_) if faulty && text.contains("the wait failed") => Some(Cause::FailedWait),
        Fault::Driver(_) if text.contains("rebuilt") => Some(Cause::Rebuilt),
        _ => None,
    }
}
