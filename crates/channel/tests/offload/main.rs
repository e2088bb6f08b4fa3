//! Handlers that run on another executor than their channel's loop (C03).
//!
//! Most of it goes by hand, on one thread: an embedded channel, and an executor that runs when the test
//! says so. What is about threads has real ones, in `threads`.

mod support;

mod completions;
mod order;
mod pending_bytes;
mod removal;
mod shutdown_and_panics;
mod threads;
mod wire_transport;
