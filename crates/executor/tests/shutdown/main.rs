//! How an executor terminates: shutdown, hooks, teardown, the last handle (E14 to E16, E21).

#[path = "../support/mod.rs"]
mod support;

mod hooks;
mod last_handle;
mod requests;
mod teardown;
