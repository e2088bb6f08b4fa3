//! A push gateway to talk to: `cargo run --release`, then `nc localhost 7000` in two other terminals.
//!
//! It ends by SIGTERM or Ctrl-C, with status 0, when what it has accepted is delivered; a second one ends it
//! at once. With a terminal, or `--stats`, it shows every second what its loops do.

mod board;
mod cli;
mod console;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use waterwheel::channel::Drained;
use waterwheel::executor::{LogReporter, Reporter};
use waterwheel::net::Terminate;
use waterwheel_gateway::gateway::{Config, Gateway, NotStarted};

use crate::board::Board;
use crate::cli::Options;
use crate::console::{Console, print_error};

fn main() -> ExitCode {
    let options = match cli::parse(std::env::args_os()) {
        Ok(options) => options,
        Err(error) => error.exit(), // With the help on stdout and status 0, or what is wrong and 2.
    };
    let (console, printed) = console::open();
    let ended = run(&options, console);
    printed.wait();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            print_error(&why);
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, console: Console) -> Result<(), String> {
    // Before there is anything that a signal could end in the middle.
    let terminate = Terminate::new().map_err(|error| format!("no signal handler: {error}"))?;
    let reporter: Arc<dyn Reporter> = Arc::new(LogReporter);
    let gateway = Gateway::start(&options.config, &reporter)
        .map_err(|error| advise(&error, &options.config))?;
    let gateway = Arc::new(gateway);
    if let Some(address) = gateway.address() {
        console.line(&format!("listening at {address}; Ctrl-C ends it"));
    }
    let on_terminal = io::stdout().is_terminal();
    let wanted = on_terminal || options.stats;
    let board = wanted.then(|| Board::show(&gateway, &console, on_terminal)).flatten();
    let signal = terminate.asked().join().map_err(|error| error.to_string())?;
    if let Some(board) = board {
        board.take_down();
    }
    console.line(&format!("{signal}: delivering what was accepted; a second one ends it at once"));
    let drained = gateway.drain().map_err(|error| error.to_string())?;
    let lines = gateway.lines();
    console.line(&format!(
        "{} lines received, {} delivered, {} missed",
        lines.received, lines.delivered, lines.missed
    ));
    match drained {
        Drained::Complete => {}
        Drained::DeadlineReached { channels } | Drained::CutShort { channels } => {
            console.line(&format!("{channels} clients did not read all of theirs in time"));
        }
    }
    Ok(())
}

/// What to do about it.
fn advise(error: &NotStarted, config: &Config) -> String {
    let NotStarted::Server(server) = error else { return error.to_string() };
    let advice = match server.find::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::AddrInUse) => {
            format!(
                "another program has this port; choose one with --port, or 0 for any: --port {}",
                config.port.wrapping_add(1)
            )
        }
        Some(io::ErrorKind::PermissionDenied) => {
            String::from("this port is for the system; choose one above 1023 with --port")
        }
        Some(io::ErrorKind::AddrNotAvailable) => String::from(
            "this machine has no such address; choose one with --bind, 0.0.0.0 for all",
        ),
        _ => return server.to_string(),
    };
    format!("{server}\n{advice}")
}
