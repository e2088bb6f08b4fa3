//! The stock handlers and guards over real sockets: flow control, accept guards, traffic shaping, timeouts.

mod flow;
mod guards;
mod shaping;
mod timeouts;

#[path = "../support/program.rs"]
mod program;
