//! Functions that run code of the user's on a loop, for the layer above.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::current;
use super::trampoline::Trampoline;
use crate::error::{Error, take_panic_message};
use crate::promise::report_panic;
use crate::raw::origin::Origin;
use crate::report::guard;
use crate::report::{Fault, UserCode};
use crate::watchdog::call_site::CallSite;

/// Runs code of the user's on a loop. A panic is reported, and returned as an error.
///
/// # Errors
/// [`ErrorKind::Panicked`](crate::ErrorKind::Panicked).
pub fn run_user_code<R>(
    what: UserCode,
    origin: Origin,
    code: impl FnOnce() -> R,
) -> Result<R, Error> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| report_panic(what, origin, payload))
}

/// Runs code as [`run_user_code`] does, and publishes it as the activity of the loop on this thread, if there
/// is one.
///
/// # Errors
/// [`ErrorKind::Panicked`](crate::ErrorKind::Panicked).
pub fn run_as<R>(what: UserCode, origin: Origin, code: impl FnOnce() -> R) -> Result<R, Error> {
    current::run_as((what, origin, None), || run_user_code(what, origin, code))
}

/// Calls `code` as a method of this call site, on the loop of this thread. A panic continues to unwind.
pub fn run_at<R>(call_site: &CallSite, call: u8, code: impl FnOnce() -> R) -> R {
    let what = (UserCode::Handler, call_site.origin, call_site.encode_call(call));
    let code = AssertUnwindSafe(code);
    match current::run_as(what, || catch_unwind(code)) {
        Ok(result) => result,
        Err(payload) => resume_unwind(payload),
    }
}

/// Returns the text of a panic payload, or a fixed text if it has none. Drops the payload, even if its
/// destructor panics.
pub fn panic_message(payload: Box<dyn std::any::Any + Send>) -> String {
    take_panic_message(payload)
}

thread_local! {
    /// Runs nested drops one after the other: a destructor may drop the next value of a chain.
    static DROPS: Trampoline = const { Trampoline::new() };
}

/// Drops a value of the user's. A call from the destructor of such a value is deferred until that destructor has
/// returned, so that a chain of any length does not grow the stack. A panic is reported.
pub fn drop_in_turn<T: 'static>(value: T) {
    Trampoline::run(&DROPS, Box::new(move || drop(value)));
}

/// Reports a fault that the loop on this thread has survived; to the log, if this thread runs no loop.
pub fn report(fault: Fault) {
    guard::report(fault);
}
