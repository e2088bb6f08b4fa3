//! Puts load on a running gateway, and measures what it does with it: the figures of `docs/LOAD.md`.
//!
//! ```sh
//! cargo run --release -p waterwheel-loadtest -- --pid "$(pgrep -x gateway)" fanout --subscribers 1000
//! ```
//!
//! One event loop makes all of the load. The results are a table on standard output; `--json` and `--svg` write them to files.
//! The exit status is 1 if a publication was lost or came twice, or anything else was not as `docs/GATEWAY.md` promises.

#![forbid(unsafe_code)]

mod cli;
mod client;
mod delivery;
mod error;
mod machine;
mod program;
mod progress;
mod report;
mod scenario;
mod stop;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::run()
}
