//! SIGHUP, the request to reload the configuration.

use std::fmt;
use std::io;

use signal_hook::consts::SIGHUP;

use crate::signal_calls::SignalCalls;

/// Reports the request to reload the configuration: SIGHUP, as operators and supervisors send it.
///
/// Once a `ReloadSignal` exists, SIGHUP no longer ends the process. Signals that arrive before
/// [`on_signal`](Self::on_signal) are kept for it. Dropping the `ReloadSignal` does not uninstall the handler: the
/// signal is ignored from then on. Of several `ReloadSignal`s each reports every signal.
///
/// SIGHUP is also what the kernel sends when the terminal of a process is closed. A program that is to end then has to
/// find that out, for instance by
/// [`is_terminal`](std::io::IsTerminal::is_terminal), which is false for a terminal that was closed.
///
/// ```
/// use std::sync::mpsc;
/// use waterwheel_net::ReloadSignal;
///
/// let reload = ReloadSignal::new()?; // First of all: from here on the signal does not end the process.
/// let (sender, reloads) = mpsc::channel();
/// reload.on_signal(move || {
///     let _ = sender.send("the configuration was read again");
/// })?;
/// # use rustix::process::{Signal, getpid, kill_process};
/// # kill_process(getpid(), Signal::HUP)?;
/// println!("{}", reloads.recv()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReloadSignal(SignalCalls);

impl ReloadSignal {
    /// Installs the handler.
    ///
    /// # Errors
    /// A descriptor or the signal handler could not be created.
    pub fn new() -> io::Result<Self> {
        SignalCalls::install(SIGHUP).map(Self)
    }

    /// Calls `f` after a signal, on a thread of its own, for as long as the process runs. Signals that arrive while `f`
    /// runs cause one more call together: `f` has to read everything again. A panic in `f` ends that call only.
    ///
    /// # Errors
    /// The thread could not be started. The signal is ignored from then on.
    pub fn on_signal(self, f: impl FnMut() + Send + 'static) -> io::Result<()> {
        self.0.call("reload", f)
    }
}

impl fmt::Debug for ReloadSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadSignal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_before_the_function_is_kept_for_it() {
        use rustix::process::{Signal, getpid, kill_process};

        let reload = ReloadSignal::new().unwrap();
        kill_process(getpid(), Signal::HUP).unwrap();
        let (sender, calls) = std::sync::mpsc::channel();
        reload.on_signal(move || sender.send(()).unwrap()).unwrap();
        calls.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    }
}
