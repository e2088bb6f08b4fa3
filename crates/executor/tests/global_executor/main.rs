//! The global executor (E19). A binary of its own: the process has one global executor, and these tests
//! shut it down or wait until it is idle, one test at a time.

#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard};

use waterwheel_executor::GlobalExecutor;

mod idle;
mod lifecycle;
mod timers;

static ALONE: Mutex<()> = Mutex::new(());

/// Returns the global executor, for the calling test alone while the guard lives.
fn global_alone() -> (MutexGuard<'static, ()>, &'static GlobalExecutor) {
    (support::lock(&ALONE), GlobalExecutor::get())
}
