//! The threads of executors: starting, thread suppliers, pools, pooled executors (E04, E05, L12).

#[path = "../support/mod.rs"]
mod support;

mod pool;
mod pooled_executor;
mod start;
