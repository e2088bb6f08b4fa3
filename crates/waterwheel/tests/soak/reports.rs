//! Reports of the loops: reports that scenarios cause are counted, any other report fails the test.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterwheel::executor::{Fault, Report, Reporter};

use crate::client_connection::WAIT_LIMIT;

/// The cause of an expected report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// A handler panicked.
    Panic,
    /// EMFILE: there was no descriptor for a connection or a new selector.
    NoDescriptor,
    /// A wait failed.
    FailedWait,
    /// The selector was rebuilt.
    Rebuilt,
    /// A handler blocked its loop on purpose.
    SlowHandler,
    /// A connection was accepted by a loop that drains.
    Draining,
}

/// Counts reports by cause. Loops add reports, scenarios wait for them.
#[derive(Default)]
pub(crate) struct ReportCounts {
    state: Mutex<ReportState>,
    changed: Condvar,
}

#[derive(Default)]
struct ReportState {
    caused: BTreeMap<Cause, u64>,
    unexpected: Vec<String>,
}

impl ReportCounts {
    /// Returns how many reports had this cause.
    pub(crate) fn count(&self, cause: Cause) -> u64 {
        self.lock().count(cause)
    }

    /// Waits until more than `count` reports had this cause.
    #[track_caller]
    pub(crate) fn wait_for_more(&self, cause: Cause, count: u64) {
        assert!(self.wait(cause, count, WAIT_LIMIT), "{cause:?} was not reported");
    }

    /// Waits at most 10 ms, and returns true if more than `count` reports had this cause.
    pub(crate) fn wait_briefly(&self, cause: Cause, count: u64) -> bool {
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

    fn lock(&self) -> MutexGuard<'_, ReportState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportState {
    fn count(&self, cause: Cause) -> u64 {
        self.caused.get(&cause).copied().unwrap_or(0)
    }
}

impl Reporter for ReportCounts {
    fn report(&self, report: &Report<'_>) {
        let mut state = self.lock();
        match expected_cause(report) {
            Some(cause) => *state.caused.entry(cause).or_default() += 1,
            None => state.unexpected.push(format!("{}: {}", report.executor, report.fault)),
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Returns the cause of a report that a scenario provokes on purpose.
fn expected_cause(report: &Report<'_>) -> Option<Cause> {
    let text = report.fault.to_string();
    let faulty = report.executor.starts_with("faulty");
    match &report.fault {
        Fault::Panicked { message, .. } => message.contains("on purpose").then_some(Cause::Panic),
        Fault::Slow(work) => {
            let call_site = work.activity.call_site.as_ref()?;
            (&*call_site.name == "slow").then_some(Cause::SlowHandler)
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
