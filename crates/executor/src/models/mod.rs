//! Loom models of the protocols that two threads share. They drive the files that ship, through
//! `sync`; `scripts/loom-mutants` shows that each of them can fail.

mod inbox;
mod promise;
mod pulse;
mod queue;
mod start;

use std::sync::Arc;

use crate::clock::Clock;
use crate::park::{Park, TokenPark, Unpark};

/// A parker as the task-only loops use it.
fn parker() -> (TokenPark, Arc<dyn Unpark>) {
    let park = TokenPark::new(Clock::Monotonic);
    let unpark = park.unparker();
    (park, unpark)
}

/// Three threads at the queue: two preemptions at the most. With three, two of the threads can wait
/// for the third, and loom lets these two give way to each other for ever.
fn model_of_three(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    builder.check(f);
}

/// Blocks without a limit: a wake-up that does not come is a deadlock, which loom finds.
fn park(parker: &mut TokenPark) {
    parker.park(None);
}
