//! Running code of the user's on a loop, for the layer above.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::current;
use super::trampoline::Trampoline;
use crate::error::{Error, absorb};
use crate::promise::caught;
use crate::raw::origin::Origin;
use crate::report::guard;
use crate::report::{Fault, UserCode};
use crate::watchdog::call_site::Station;

/// Runs code of the user's on a loop. A panic is reported, and comes back as an error.
///
/// # Errors
/// [`ErrorKind::Panicked`](crate::ErrorKind::Panicked).
pub fn run_user_code<R>(
    what: UserCode,
    origin: Origin,
    code: impl FnOnce() -> R,
) -> Result<R, Error> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| caught(what, origin, payload))
}

/// As [`run_user_code`], as what the loop on this thread is doing right now, if there is one.
///
/// # Errors
/// [`ErrorKind::Panicked`](crate::ErrorKind::Panicked).
pub fn run_as<R>(what: UserCode, origin: Origin, code: impl FnOnce() -> R) -> Result<R, Error> {
    current::run_as((what, origin, None), || run_user_code(what, origin, code))
}

/// Calls `code` as a call of this station, on whichever loop this thread is. A panic goes on.
pub fn run_at<R>(station: &Station, call: u8, code: impl FnOnce() -> R) -> R {
    let what = (UserCode::Handler, station.origin, station.at(call));
    let code = AssertUnwindSafe(code);
    match current::run_as(what, || catch_unwind(code)) {
        Ok(result) => result,
        Err(payload) => resume_unwind(payload),
    }
}

/// The text of a panic, as far as it has one; what it carries is dropped, even if that panics again.
pub fn panic_message(payload: Box<dyn std::any::Any + Send>) -> String {
    absorb(payload)
}

thread_local! {
    /// A destructor may hand over the next value that is to be dropped, and so on along a chain.
    static DROPS: Trampoline = const { Trampoline::new() };
}

/// Drops a value of the user's: now or, if this is called by the destructor of such a value, when that has
/// returned. However long a chain of them is, the stack does not grow. A panic is reported.
pub fn drop_in_turn<T: 'static>(value: T) {
    Trampoline::run(&DROPS, Box::new(move || drop(value)));
}

/// Tells the loop on this thread of a fault that it has survived; the log, if there is none.
pub fn report(fault: Fault) {
    guard::report(fault);
}
