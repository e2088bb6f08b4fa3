//! How many allocations the hot paths make, to the allocation. A binary of its own: it replaces the
//! global allocator by one that counts.

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;
#[path = "../support/mod.rs"]
mod support;

mod tasks;
mod timers;
