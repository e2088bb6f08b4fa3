//! The deadline of a run: a run that hangs prints the state of its loops and aborts.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::client_connection::WAIT_LIMIT;

/// A thread that aborts the process, unless the run cancels it in time.
pub(crate) struct RunDeadline {
    cancel: Sender<()>,
    thread: JoinHandle<()>,
}

impl RunDeadline {
    /// Starts the deadline: twice the planned time of all rounds, plus four times the limit of one wait.
    pub(crate) fn start(
        rounds: u32,
        round: Duration,
        dump: impl Fn() -> String + Send + 'static,
    ) -> Self {
        let limit = rounds * 2 * round + 4 * WAIT_LIMIT;
        let (cancel, cancelled) = channel();
        let thread = thread::spawn(move || {
            if cancelled.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("the soak run has not ended after {limit:?}; its loops:\n{}", dump());
                std::process::abort();
            }
        });
        Self { cancel, thread }
    }

    /// Cancels the deadline, because the run has ended.
    pub(crate) fn cancel(self) {
        drop(self.cancel);
        self.thread.join().expect("the deadline's thread does not panic");
    }
}
