//! SIGHUP, the request to reload the configuration.
//!
//! ```text
//!   SIGHUP ──► one byte ──► thread `reload`: reads all bytes that wait, then calls the function
//! ```
//!
//! The function runs on a thread of its own, because it reads files, which may take long.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use signal_hook::consts::SIGHUP;
use signal_hook::low_level::pipe;

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
pub struct ReloadSignal {
    /// Holds a byte for each signal, up to what the socket takes; more would tell nothing new.
    signals: UnixStream,
}

impl ReloadSignal {
    /// Installs the handler.
    ///
    /// # Errors
    /// A descriptor or the signal handler could not be created.
    pub fn new() -> io::Result<Self> {
        let (signals, write) = UnixStream::pair()?;
        pipe::register(SIGHUP, write)?;
        Ok(Self { signals })
    }

    /// Calls `f` after a signal, on a thread of its own, for as long as the process runs. Signals that arrive while `f`
    /// runs cause one more call together: `f` has to read everything again. A panic in `f` ends that call only.
    ///
    /// # Errors
    /// The thread could not be started. The signal is ignored from then on.
    pub fn on_signal(self, f: impl FnMut() + Send + 'static) -> io::Result<()> {
        let call = move || call_after_signals(self.signals, f);
        thread::Builder::new().name("reload".to_owned()).spawn(call).map(drop)
    }
}

/// Calls `f` for all bytes that wait in `signals`, until the end of the stream.
fn call_after_signals(mut signals: UnixStream, mut f: impl FnMut()) {
    let mut waiting = [0; 256];
    loop {
        match signals.read(&mut waiting) {
            Ok(1..) => {
                // The panic hook has printed it. `f` may find its own state half changed, as after any panic.
                let _ = catch_unwind(AssertUnwindSafe(&mut f));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}

impl fmt::Debug for ReloadSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadSignal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn signals_that_wait_cause_one_call_and_later_ones_another() {
        let (signals, mut handler) = UnixStream::pair().unwrap();
        handler.write_all(b"xxx").unwrap();
        let mut handler = Some(handler);
        let mut calls = 0;
        call_after_signals(signals, || {
            calls += 1;
            match calls {
                // Two signals while the first call runs.
                1 => handler.as_mut().unwrap().write_all(b"xx").unwrap(),
                _ => handler = None,
            }
        });
        assert_eq!(calls, 2);
    }

    #[test]
    fn a_panic_does_not_end_the_calls() {
        let (signals, mut handler) = UnixStream::pair().unwrap();
        handler.write_all(b"x").unwrap();
        let mut handler = Some(handler);
        let mut calls = 0;
        call_after_signals(signals, || {
            calls += 1;
            if calls == 1 {
                handler.as_mut().unwrap().write_all(b"x").unwrap();
                panic!("the first call");
            }
            handler = None;
        });
        assert_eq!(calls, 2);
    }

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
