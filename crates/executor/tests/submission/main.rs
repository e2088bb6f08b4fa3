//! Tasks from their submission to their run: order, queue bound, wake-ups, passes, panics (E07 to E12).

#[path = "../support/mod.rs"]
mod support;

mod acceptance;
mod panics;
mod passes;
mod queue_bound;
mod wake_ups;
