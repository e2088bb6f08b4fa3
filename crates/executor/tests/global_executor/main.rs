//! The global executor (E19). A binary of its own: the process has one global executor, and these tests
//! end it and watch it idle, one at a time.

#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard};

use waterwheel_executor::GlobalExecutor;

mod idle;
mod lifecycle;
mod timers;

static ALONE: Mutex<()> = Mutex::new(());

/// The global executor, for the calling test alone as long as the guard lives.
fn global_alone() -> (MutexGuard<'static, ()>, &'static GlobalExecutor) {
    (support::lock(&ALONE), GlobalExecutor::get())
}
