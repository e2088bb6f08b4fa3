//! The test's own watchdog: a run that hangs ends with a look at its loops.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::line::PATIENCE;

/// Rings, and ends the process, unless it is set off in time.
pub(crate) struct Alarm {
    off: Sender<()>,
    thread: JoinHandle<()>,
}

impl Alarm {
    /// Every round may take twice as long as it should, and as long as a wait may take besides.
    pub(crate) fn set(
        rounds: u32,
        round: Duration,
        dump: impl Fn() -> String + Send + 'static,
    ) -> Self {
        let limit = rounds * 2 * round + 4 * PATIENCE;
        let (off, listen) = channel();
        let thread = thread::spawn(move || {
            if listen.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("not over after {limit:?}\n{}", dump());
                std::process::abort();
            }
        });
        Self { off, thread }
    }

    /// Everything has ended.
    pub(crate) fn off(self) {
        drop(self.off);
        self.thread.join().expect("it only waits");
    }
}
