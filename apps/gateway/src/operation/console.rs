//! Standard output: the only module that prints.
//!
//! The reader of the output may have gone (`| head -1`) or pause (a pager), or the disk may be full: the gateway
//! keeps serving. Therefore a separate thread prints. Output that it cannot write is dropped; only the end of the
//! program waits for queued output, for at most [`FLUSH_TIMEOUT`].

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Maximum number of queued texts; a gateway prints fewer in its life. Further texts are dropped.
const QUEUE_CAPACITY: usize = 64;

/// How long the end of the program waits for queued output.
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Queues texts for the printing thread.
#[derive(Clone, Debug)]
pub struct Console {
    texts: SyncSender<String>,
}

/// Becomes ready when the printing thread has ended.
#[derive(Debug)]
pub struct PrinterDone(Receiver<()>);

/// Starts the printing thread. If the thread cannot be started, nothing is printed.
#[must_use]
pub fn open() -> (Console, PrinterDone) {
    let (texts, to_print) = sync_channel::<String>(QUEUE_CAPACITY);
    let (printing, printed) = channel::<()>();
    let print = move || {
        let _printing = printing;
        for text in to_print {
            let mut out = io::stdout().lock();
            // Fails if the reader of the output has gone (EPIPE) or the disk is full (ENOSPC).
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    };
    let _detached = thread::Builder::new().name(String::from("console")).spawn(print);
    (Console { texts }, PrinterDone(printed))
}

impl Console {
    /// Queues a text.
    pub fn print(&self, text: String) {
        // Dropped if the queue is full: standard output has not been read for long.
        let _ = self.texts.try_send(text);
    }

    /// Queues a line.
    pub fn line(&self, line: &str) {
        self.print(format!("{line}\n"));
    }
}

impl PrinterDone {
    /// Waits until all queued output is written, for at most [`FLUSH_TIMEOUT`]. Every [`Console`] must have been
    /// dropped before.
    pub fn wait(self) {
        // Nothing is ever sent: `recv_timeout` returns when the thread drops its sender, or after the timeout.
        let _ = self.0.recv_timeout(FLUSH_TIMEOUT);
    }
}

/// Prints on standard error why the program failed, a line for each problem.
pub fn print_error(why: &str) {
    for line in why.lines() {
        let _ = writeln!(io::stderr(), "gateway: {line}");
    }
}
