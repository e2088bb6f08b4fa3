//! What channels may allocate, counted by an allocator: each thread counts for itself.

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;

mod bursts;
mod codecs;
mod pipeline;
