//! The signals of the program, as requests for the main thread.
//!
//! SIGHUP tells a daemon to reload. The kernel and shells send the same signal when a terminal is closed: a gateway that
//! was started in a terminal ends with it, in order, and any other stays.

use std::io::{self, IsTerminal};
use std::sync::mpsc::Sender;

use waterwheel::net::{ReloadSignal, TakeOverSignal, Terminate, TerminationSignal};

use super::take_over::hand_over::TakeOverError;

/// A request to the main thread.
#[derive(Debug)]
pub enum OperatorRequest {
    /// SIGTERM or SIGINT: end.
    Terminate(TerminationSignal),
    /// SIGHUP: read the files again.
    Reload,
    /// SIGHUP after the terminal was closed: end.
    TerminalClosed,
    /// SIGUSR2: start a new process that takes over.
    HandOver,
    /// The new process is ready, and this is its id; or there is none.
    HandedOver(Result<u32, TakeOverError>),
}

/// Installs the handlers of all signals. From now on no signal ends the program but a second SIGTERM or SIGINT.
///
/// # Errors
/// A descriptor, a thread or a handler cannot be created.
pub fn install(requests: &Sender<OperatorRequest>) -> io::Result<()> {
    let terminate = Terminate::new()?;
    let reload = ReloadSignal::new()?;
    let take_over = TakeOverSignal::new()?;
    let first = requests.clone();
    terminate.on_first_signal(move |signal| send(&first, OperatorRequest::Terminate(signal)));
    let of_take_over = requests.clone();
    take_over.on_signal(move || send(&of_take_over, OperatorRequest::HandOver))?;
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
