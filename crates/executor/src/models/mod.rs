//! Models of the protocols between threads. They drive the files that ship, through `sync`, and are run by
//! three checkers:
//!
//! - loom (`--cfg loom`), through every interleaving; `scripts/loom-mutants` shows that each model can fail;
//! - Miri (`scripts/test miri`), which tries only the interleavings of its seeds, but sees what loom does not:
//!   aliasing, use after free, double free and leaks;
//! - real threads in an ordinary test run, a number of times.

mod activity_cell;
mod inbox;
mod pool;
mod promise;

mod queue;
mod start;

use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::thread;

#[cfg(loom)]
use loom::model;
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(loom)]
use loom::thread;

use crate::clock::Clock;
use crate::wake::park::{Park, TokenPark, Unpark};

/// Returns a parker as task-only loops use it.
fn parker() -> (TokenPark, Arc<dyn Unpark>) {
    let park = TokenPark::new(Clock::Monotonic);
    let unpark = park.unparker();
    (park, unpark)
}

/// How often an ordinary run tries a model; under Miri a seed is one try.
#[cfg(not(loom))]
const TRIES: usize = if cfg!(miri) { 1 } else { 100 };

#[cfg(not(loom))]
fn model(f: impl Fn()) {
    (0..TRIES).for_each(|_| f());
}

#[cfg(not(loom))]
fn model_of_three(f: impl Fn()) {
    model(f);
}

/// Runs a model of three threads at the queue with at most two preemptions. With three, two of the threads can
/// wait for the third, and loom lets these two yield to each other for ever.
#[cfg(loom)]
fn model_of_three(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    builder.check(f);
}

/// Blocks without a limit: a lost wake-up is a deadlock, which loom reports.
fn park(parker: &mut TokenPark) {
    parker.park(None);
}
