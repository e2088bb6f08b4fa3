//! Calls of a function after each arrival of a signal.
//!
//! ```text
//!   signal ──► one byte ──► a thread: reads all bytes that wait, then calls the function
//! ```
//!
//! The function runs on a thread of its own, because it reads files or starts programs, which may take long.

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use signal_hook::low_level::pipe;

/// The arrivals of one signal, from the installation of its handler on.
pub(crate) struct SignalCalls {
    /// Holds a byte for each signal, up to what the socket takes; more would tell nothing new.
    signals: UnixStream,
}

impl SignalCalls {
    /// Installs the handler of a signal.
    pub(crate) fn install(signal: i32) -> io::Result<Self> {
        let (signals, write) = UnixStream::pair()?;
        pipe::register(signal, write)?;
        Ok(Self { signals })
    }

    /// Calls `f` after a signal, on a thread of this name. Signals that arrive while `f` runs cause one more call together. A
    /// panic in `f` ends that call only.
    pub(crate) fn call(self, thread: &str, f: impl FnMut() + Send + 'static) -> io::Result<()> {
        let call = move || call_after_signals(self.signals, f);
        thread::Builder::new().name(thread.to_owned()).spawn(call).map(drop)
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
}
