//! Running user code: a panic is caught, reported, and goes no further.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::current;
use crate::error::absorb;
use crate::raw::origin::Origin;
use crate::report::log_reporter::LogReporter;
use crate::report::{Fault, Report, Reporter, UserCode};

/// Runs user code, as what the loop on this thread is doing. `None`: it panicked, and the loop (or the
/// log) was told.
pub(crate) fn guard<R>(what: UserCode, origin: Origin, code: impl FnOnce() -> R) -> Option<R> {
    current::run_as((what, origin, None), || catch(what, origin, code))
}

/// As [`guard`], for a loop that has said by itself what it is doing.
#[inline]
pub(crate) fn catch<R>(what: UserCode, origin: Origin, code: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(value) => Some(value),
        Err(payload) => {
            report(Fault::Panicked { what, origin, message: absorb(payload) });
            None
        }
    }
}

/// As [`guard`], for user code that runs off the loop: its own executor is told.
pub(crate) fn guard_for<R>(
    (reporter, executor): (&dyn Reporter, &str),
    (what, origin): (UserCode, Origin),
    code: impl FnOnce() -> R,
) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(value) => Some(value),
        Err(payload) => {
            let fault = Fault::Panicked { what, origin, message: absorb(payload) };
            report_to(reporter, executor, fault);
            None
        }
    }
}

/// Runs a destructor of the user's, or something that may come to one.
pub(crate) fn guard_drop(code: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        let (what, origin) = (UserCode::Destructor, Origin::labelled("destructor"));
        report(Fault::Panicked { what, origin, message: absorb(payload) });
    }
}

/// Tells the loop on this thread of a fault, or the log if there is none.
#[cold]
pub(crate) fn report(fault: Fault) {
    match current::get() {
        Some(current) => report_to(&*current.reporter, &current.name, fault),
        None => report_to(&LogReporter, "none", fault),
    }
}

/// Tells a reporter; what it panics with is ignored, there is nobody left to tell.
pub(crate) fn report_to(reporter: &dyn Reporter, executor: &str, fault: Fault) {
    let report = Report { executor, fault };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| reporter.report(&report))) {
        absorb(payload);
    }
}
