//! Channels as streams and sinks of code on other threads.

mod back_pressure;
mod budgets;
#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;
mod ending;
mod messages;
mod support;
mod threads;
