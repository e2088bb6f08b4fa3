//! The example `files` and the programs that people ask for files with: curl, wget, Python, Chromium. A test says so and
//! passes if its program is missing; `scripts/test` installs them.

mod browser;
mod curl;
mod programs;
mod site;
mod system_calls;
mod tls;

#[path = "../support/program.rs"]
mod program;
