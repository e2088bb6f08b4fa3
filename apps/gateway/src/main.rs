//! The gateway program: `cargo run --release`, then `nc localhost 7000` in two other terminals.
//!
//! SIGTERM or Ctrl-C ends the program with status 0 once every accepted line is delivered; a second signal, at once.
//! SIGHUP reads the files of TLS again; if the terminal of the program was closed, it ends the program like SIGTERM.
//! On a terminal, or with `--stats`, it prints a table of its event loops every second.

#![forbid(unsafe_code)]

mod cli;
mod console;
mod signals;
mod stats_display;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use waterwheel::channel::Drained;
use waterwheel::executor::{Fault, LogReporter, Report, Reporter};
use waterwheel_gateway::gateway::{Gateway, GatewayConfig, GatewayStartError};

use crate::cli::Options;
use crate::console::{Console, print_error};
use crate::signals::OperatorRequest;
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
        Err(RunError::Usage(error)) => error.exit(),
        Err(RunError::Failed(why)) => {
            print_error(&why);
            ExitCode::FAILURE
        }
    }
}

/// Why the program failed.
enum RunError {
    /// The arguments name something unusable: status 2.
    Usage(clap::Error),
    /// Everything else: status 1.
    Failed(String),
}

fn run(options: &Options, console: Console) -> Result<(), RunError> {
    // Installed first, so that no signal can end the program in the middle of its start.
    let requests = signals::install().map_err(|error| {
        RunError::Failed(format!("cannot install the signal handlers: {error}"))
    })?;
    let reporter: Arc<dyn Reporter> = Arc::new(LogReporter);
    let gateway = Gateway::start(&options.config, &reporter)
        .map_err(|error| advise(&error, &options.config))?;
    let gateway = Arc::new(gateway);
    if let Some(address) = gateway.address() {
        let tls = match gateway.tls() {
            Some(tls) => format!("TLS: {}; ", tls.description()),
            None => String::new(),
        };
        console.line(&format!("listening on {address}; {tls}stop with Ctrl-C"));
    }
    let on_terminal = io::stdout().is_terminal();
    let is_shown = on_terminal || options.stats;
    let display = is_shown.then(|| StatsDisplay::start(&gateway, &console, on_terminal)).flatten();
    let cause = serve_until_the_end(&requests, || reload(&gateway, &console, &*reporter));
    if let Some(display) = display {
        display.stop();
    }
    console.line(&format!(
        "{cause}: delivering accepted lines; a second signal ends the gateway at once"
    ));
    let drained = gateway.drain().map_err(|error| RunError::Failed(error.to_string()))?;
    let lines = gateway.lines();
    console.line(&format!(
        "{} lines received, {} delivered, {} missed",
        lines.received, lines.delivered, lines.missed
    ));
    if let Some(tls) = gateway.tls() {
        console.line(&tls.handshakes().to_string());
    }
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

/// Carries out requests until one of them is to end the gateway. Returns the cause for the operator.
fn serve_until_the_end(requests: &Receiver<OperatorRequest>, reload: impl Fn()) -> String {
    loop {
        match requests.recv() {
            Ok(OperatorRequest::Reload) => reload(),
            Ok(OperatorRequest::TerminalClosed) => return String::from("the terminal was closed"),
            Ok(OperatorRequest::Terminate(signal)) => return signal.to_string(),
            Err(_) => unreachable!("the signal handlers are never uninstalled"),
        }
    }
}

fn reload(gateway: &Gateway, console: &Console, reporter: &dyn Reporter) {
    let Some(tls) = gateway.tls() else {
        return console.line("SIGHUP: nothing to reload without --tls-cert");
    };
    match tls.reload() {
        Ok(()) => console.line(&format!("SIGHUP: new connections get {}", tls.description())),
        Err(error) => {
            let why =
                format!("SIGHUP: not reloaded, new connections get what they got before: {error}");
            reporter.report(&Report { executor: "gateway", fault: Fault::Degraded(why) });
        }
    }
}

/// Returns the error with advice on how to avoid it.
fn advise(error: &GatewayStartError, config: &GatewayConfig) -> RunError {
    let server = match error {
        GatewayStartError::Server(server) => server,
        GatewayStartError::Tls(error) => return RunError::Usage(cli::unusable(error)),
        other => return RunError::Failed(other.to_string()),
    };
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
        _ => return RunError::Failed(server.to_string()),
    };
    RunError::Failed(format!("{server}\n{advice}"))
}
