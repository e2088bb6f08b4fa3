//! Runs user code: catches a panic and reports it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::current;
use crate::error::take_panic_message;
use crate::raw::origin::Origin;
use crate::report::log_reporter::LogReporter;
use crate::report::{Fault, Report, Reporter, UserCode};

/// Runs user code and publishes it as the activity of the loop on this thread. Returns `None` if it panicked;
/// the panic was reported to the loop's reporter, or to the log.
pub(crate) fn guard<R>(what: UserCode, origin: Origin, code: impl FnOnce() -> R) -> Option<R> {
    current::run_as((what, origin, None), || catch(what, origin, code))
}

/// Runs user code as [`guard`] does, for a loop that has published its activity itself.
#[inline]
pub(crate) fn catch<R>(what: UserCode, origin: Origin, code: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(value) => Some(value),
        Err(payload) => {
            report(Fault::Panicked { what, origin, message: take_panic_message(payload) });
            None
        }
    }
}

/// Runs user code off the loop; a panic is reported to the reporter of this executor.
pub(crate) fn guard_for<R>(
    (reporter, executor): (&dyn Reporter, &str),
    (what, origin): (UserCode, Origin),
    code: impl FnOnce() -> R,
) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(value) => Some(value),
        Err(payload) => {
            let fault = Fault::Panicked { what, origin, message: take_panic_message(payload) };
            report_to(reporter, executor, fault);
            None
        }
    }
}

/// Runs a destructor of the user's, or code that may run one.
pub(crate) fn guard_drop(code: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        let (what, origin) = (UserCode::Destructor, Origin::labelled("destructor"));
        report(Fault::Panicked { what, origin, message: take_panic_message(payload) });
    }
}

/// Reports a fault to the reporter of the loop on this thread, or to the log if there is no loop.
#[cold]
pub(crate) fn report(fault: Fault) {
    match current::get() {
        Some(current) => report_to(&*current.reporter, &current.name, fault),
        None => report_to(&LogReporter, "none", fault),
    }
}

/// Reports a fault. A panic of the reporter is ignored.
pub(crate) fn report_to(reporter: &dyn Reporter, executor: &str, fault: Fault) {
    let report = Report { executor, fault };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| reporter.report(&report))) {
        take_panic_message(payload);
    }
}
