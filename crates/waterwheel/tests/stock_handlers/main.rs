//! The stock handlers and guards over real sockets: flow control, accept guards, traffic shaping, timeouts; protocol detection
//! and PROXY headers with other programs.

mod flow;
mod guards;
mod proxy_protocol;
mod shaping;
mod sniff;
mod timeouts;

#[path = "../support/haproxy.rs"]
mod haproxy;
#[path = "../support/program.rs"]
mod program;
