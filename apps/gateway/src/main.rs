//! The gateway program: `cargo run --release`, then a browser at the page that it names, or `nc localhost 7000`.
//!
//! `docs/GATEWAY.md` says what clients may do, and how it is operated.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    waterwheel_gateway::operation::program::run()
}
