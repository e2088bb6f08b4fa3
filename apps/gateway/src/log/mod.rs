//! The structured log on standard error: a line for each event, logfmt or JSON.
//!
//! ```text
//!   loops, sessions ── Report ──► GatewayLog ──► level, throttle of the kind ──► LogLine ──► LogSink: standard error
//!   libraries ── tracing ──► LogSubscriber ──┘
//! ```
//!
//! # Rules
//!
//! 1. A peer cannot fill the log: each kind of line has a burst and a rate, and a line says how many of its kind were left out.
//! 2. A line has a longest length; control characters and those that change the direction of text are escaped.
//! 3. Nothing waits for standard error: a line that does not fit into the pipe is dropped, and counted.

pub mod gateway_log;
pub mod line;
pub mod sink;
pub mod subscriber;
