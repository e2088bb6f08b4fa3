//! Where a loop gets its thread: thread suppliers, pools, executors without a thread (E04, E05, L12).

#[path = "../support/mod.rs"]
mod support;

mod pool;
mod pooled_executor;
mod start;
