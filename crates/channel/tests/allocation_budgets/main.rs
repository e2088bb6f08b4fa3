//! Allocation budgets of channels, counted by an allocator that counts for each thread.

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;

mod bursts;
mod codecs;
mod future_wakes;
mod pipeline;
