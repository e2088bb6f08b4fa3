//! A client whose server is the test: the opening handshake, and its side of a connection (W01, W05).

mod connection;
mod opening;
mod requests;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod support;
