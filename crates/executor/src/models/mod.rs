//! Models of the protocols that two threads share. They drive the files that ship, through `sync`, and
//! are run by three checkers:
//!
//! - loom (`--cfg loom`), through every interleaving; `scripts/loom-mutants` shows that each can fail;
//! - Miri (`scripts/test miri`), which knows of loom's models only the interleavings that its seeds give,
//!   but sees what loom does not: aliasing, memory that is used after it was freed, freed twice or leaked;
//! - the real threads of an ordinary test run, a number of times.

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

/// A parker as the task-only loops use it.
fn parker() -> (TokenPark, Arc<dyn Unpark>) {
    let park = TokenPark::new(Clock::Monotonic);
    let unpark = park.unparker();
    (park, unpark)
}

/// As often as an ordinary run tries a model; under Miri a seed is one try.
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

/// Three threads at the queue: two preemptions at the most. With three, two of the threads can wait
/// for the third, and loom lets these two give way to each other for ever.
#[cfg(loom)]
fn model_of_three(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    builder.check(f);
}

/// Blocks without a limit: a wake-up that does not come is a deadlock, which loom finds.
fn park(parker: &mut TokenPark) {
    parker.park(None);
}
