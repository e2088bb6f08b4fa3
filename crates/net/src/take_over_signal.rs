//! SIGUSR2, the request to hand over to a new process.

use std::fmt;
use std::io;

use signal_hook::consts::SIGUSR2;

use crate::signal_calls::SignalCalls;

/// Reports the request to hand over to a new process: SIGUSR2, as nginx and others have it.
///
/// Once a `TakeOverSignal` exists, SIGUSR2 no longer ends the process. Signals that arrive before
/// [`on_signal`](Self::on_signal) are kept for it. Dropping the `TakeOverSignal` does not uninstall the handler: the
/// signal is ignored from then on.
///
/// ```
/// use std::sync::mpsc;
/// use waterwheel_net::TakeOverSignal;
///
/// let take_over = TakeOverSignal::new()?; // First of all: from here on the signal does not end the process.
/// let (sender, requests) = mpsc::channel();
/// take_over.on_signal(move || {
///     let _ = sender.send("start the new process, and give it the listening sockets");
/// })?;
/// # use rustix::process::{Signal, getpid, kill_process};
/// # kill_process(getpid(), Signal::USR2)?;
/// println!("{}", requests.recv()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TakeOverSignal(SignalCalls);

impl TakeOverSignal {
    /// Installs the handler.
    ///
    /// # Errors
    /// A descriptor or the signal handler could not be created.
    pub fn new() -> io::Result<Self> {
        SignalCalls::install(SIGUSR2).map(Self)
    }

    /// Calls `f` after a signal, on a thread of its own, for as long as the process runs. Signals that arrive while `f`
    /// runs cause one more call together. A panic in `f` ends that call only.
    ///
    /// # Errors
    /// The thread could not be started. The signal is ignored from then on.
    pub fn on_signal(self, f: impl FnMut() + Send + 'static) -> io::Result<()> {
        self.0.call("take-over", f)
    }
}

impl fmt::Debug for TakeOverSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeOverSignal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn g07_a_signal_before_the_function_is_kept_for_it() {
        let signal = TakeOverSignal::new().unwrap();
        kill_process(getpid(), Signal::USR2).unwrap();
        let (sender, calls) = mpsc::channel();
        signal.on_signal(move || sender.send(()).unwrap()).unwrap();
        calls.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
