//! A server's connection whose client is the test: handlers, close, keep-alive, back-pressure (W02, W05, R04).

mod any_order;
mod async_functions;
mod back_pressure;
mod closing;
mod failures;
mod handlers;
mod keep_alive;
mod removal;
mod short_messages;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod support;
