//! The signals of the program, as requests for the main thread.
//!
//! SIGHUP tells a daemon to reload. The kernel and shells send the same signal when a terminal is closed: a gateway that
//! was started in a terminal ends with it, in order, and any other stays.

use std::io::{self, IsTerminal};
use std::sync::mpsc::Sender;

use waterwheel::net::{ReloadSignal, Terminate, TerminationSignal};

/// A request to the main thread.
#[derive(Debug)]
pub enum OperatorRequest {
    /// SIGTERM or SIGINT: end.
    Terminate(TerminationSignal),
    /// SIGHUP: read the files again.
    Reload,
    /// SIGHUP after the terminal was closed: end.
    TerminalClosed,
}

/// Installs the handlers of all signals. From now on no signal ends the program but a second SIGTERM or SIGINT.
///
/// # Errors
/// A descriptor, a thread or a handler cannot be created.
pub fn install(requests: &Sender<OperatorRequest>) -> io::Result<()> {
    let terminate = Terminate::new()?;
    let reload = ReloadSignal::new()?;
    let first = requests.clone();
    terminate.on_first_signal(move |signal| send(&first, OperatorRequest::Terminate(signal)));
    let had_terminal = has_terminal();
    let requests = requests.clone();
    reload.on_signal(move || {
        let is_closed = had_terminal && !has_terminal();
        let request =
            if is_closed { OperatorRequest::TerminalClosed } else { OperatorRequest::Reload };
        send(&requests, request);
    })
}

fn send(requests: &Sender<OperatorRequest>, request: OperatorRequest) {
    // Fails when the program ends.
    let _ = requests.send(request);
}

/// True if a standard stream is a terminal that is open.
fn has_terminal() -> bool {
    io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal()
}
