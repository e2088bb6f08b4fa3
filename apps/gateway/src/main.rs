//! The gateway program: `cargo run --release`, then `nc localhost 7000` in two other terminals.
//!
//! SIGTERM or Ctrl-C ends the program with status 0 once every accepted line is delivered; a second signal, at once.
//! On a terminal, or with `--stats`, it prints a table of its event loops every second.

#![forbid(unsafe_code)]

mod cli;
mod console;
mod stats_display;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use waterwheel::channel::Drained;
use waterwheel::executor::{LogReporter, Reporter};
use waterwheel::net::Terminate;
use waterwheel_gateway::gateway::{Gateway, GatewayConfig, GatewayStartError};

use crate::cli::Options;
use crate::console::{Console, print_error};
use crate::stats_display::StatsDisplay;

fn main() -> ExitCode {
    let options = match cli::parse(std::env::args_os()) {
        Ok(options) => options,
        Err(error) => error.exit(), // Help: stdout, status 0. Errors: stderr, status 2.
    };
    let (console, printer) = console::open();
    let result = run(&options, console);
    printer.wait();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            print_error(&why);
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, console: Console) -> Result<(), String> {
    // Installed first, so that no signal can end the program in the middle of its start.
    let terminate =
        Terminate::new().map_err(|error| format!("cannot install the signal handlers: {error}"))?;
    let reporter: Arc<dyn Reporter> = Arc::new(LogReporter);
    let gateway = Gateway::start(&options.config, &reporter)
        .map_err(|error| advise(&error, &options.config))?;
    let gateway = Arc::new(gateway);
    if let Some(address) = gateway.address() {
        console.line(&format!("listening on {address}; stop with Ctrl-C"));
    }
    let on_terminal = io::stdout().is_terminal();
    let is_shown = on_terminal || options.stats;
    let display = is_shown.then(|| StatsDisplay::start(&gateway, &console, on_terminal)).flatten();
    let signal = terminate.first_signal().join().map_err(|error| error.to_string())?;
    if let Some(display) = display {
        display.stop();
    }
    console.line(&format!(
        "{signal}: delivering accepted lines; a second signal ends the gateway at once"
    ));
    let drained = gateway.drain().map_err(|error| error.to_string())?;
    let lines = gateway.lines();
    console.line(&format!(
        "{} lines received, {} delivered, {} missed",
        lines.received, lines.delivered, lines.missed
    ));
    match drained {
        Drained::Complete => {}
        Drained::DeadlineReached { channels } | Drained::CutShort { channels } => {
            console.line(&format!(
                "{channels} clients did not read all of their lines before the deadline"
            ));
        }
    }
    Ok(())
}

/// Returns the error with advice on how to avoid it.
fn advise(error: &GatewayStartError, config: &GatewayConfig) -> String {
    let GatewayStartError::Server(server) = error else { return error.to_string() };
    let advice = match server.find::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::AddrInUse) => {
            format!(
                "another program uses this port; choose a free one, for instance --port {}, or --port 0 for any",
                config.port.wrapping_add(1)
            )
        }
        Some(io::ErrorKind::PermissionDenied) => {
            String::from("ports below 1024 need privileges; choose another one with --port")
        }
        Some(io::ErrorKind::AddrNotAvailable) => String::from(
            "this machine does not have that address; choose another with --bind, 0.0.0.0 for all",
        ),
        _ => return server.to_string(),
    };
    format!("{server}\n{advice}")
}
