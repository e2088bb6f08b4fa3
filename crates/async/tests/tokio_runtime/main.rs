//! Calls into a tokio runtime (A05), on a loop that the test turns and a current-thread runtime that the test drives:
//! both on the test's thread, so that every step happens when the test makes it. Multi-thread runtimes and loops with
//! threads have tests of their own.

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;

mod budgets;
mod cancellation;
mod ended_runtimes;
mod ordered_calls;
mod outcomes;
mod support;
mod threads;
