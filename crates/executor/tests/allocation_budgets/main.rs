//! Exact allocation budgets. A binary of its own, because it replaces the
//! global allocator with a counting one.

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;
#[path = "../support/mod.rs"]
mod support;

mod tasks;
mod timers;
