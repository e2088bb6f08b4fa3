//! Offloaded handlers, which run on another executor than their channel's loop (C03).
//!
//! Most tests drive an embedded channel and its executor manually, on one thread. Tests of threads are in
//! `threads`.

mod support;

mod completions;
mod order;
mod pending_bytes;
mod removal;
mod shutdown_and_panics;
mod threads;
mod wire_transport;
