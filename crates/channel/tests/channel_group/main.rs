//! Channel groups (C14).

#[path = "../local/support.rs"]
mod support;

mod load;
mod operations;
mod shared_messages;
