//! Standard output: the only module that prints.
//!
//! The reader of the output may have gone (`| head -1`) or pause (a pager), or the disk may be full: the gateway
//! keeps serving. Therefore a separate thread prints. Output that it cannot write is dropped; only the end of the
//! program waits for queued output, for at most [`FLUSH_TIMEOUT`].

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Maximum number of queued texts, about a minute of tables. Further texts are dropped.
const QUEUE_CAPACITY: usize = 64;

/// How long the end of the program waits for queued output.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Queues texts for the printing thread.
#[derive(Clone)]
pub(crate) struct Console {
    texts: SyncSender<String>,
    /// Lines queued so far, apart from tables. Any thread counts; the order relative to other memory does not matter.
    lines: Arc<AtomicUsize>,
}

/// Becomes ready when the printing thread has ended.
pub(crate) struct PrinterDone(Receiver<()>);

/// Starts the printing thread. If the thread cannot be started, nothing is printed.
pub(crate) fn open() -> (Console, PrinterDone) {
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
    (Console { texts, lines: Arc::default() }, PrinterDone(printed))
}

impl Console {
    /// Queues a text.
    pub(crate) fn print(&self, text: String) {
        // Dropped if the queue is full: standard output has not been read for long.
        let _ = self.texts.try_send(text);
    }

    /// Queues a line.
    pub(crate) fn line(&self, line: &str) {
        self.lines.fetch_add(1, Ordering::Relaxed);
        self.print(format!("{line}\n"));
    }

    /// Returns how many lines were queued by [`line`](Self::line) so far.
    pub(crate) fn lines(&self) -> usize {
        self.lines.load(Ordering::Relaxed)
    }
}

impl PrinterDone {
    /// Waits until all queued output is written, for at most [`FLUSH_TIMEOUT`]. Every [`Console`] must have been
    /// dropped before.
    pub(crate) fn wait(self) {
        // Nothing is ever sent: `recv_timeout` returns when the thread drops its sender, or after the timeout.
        let _ = self.0.recv_timeout(FLUSH_TIMEOUT);
    }
}

/// Prints on standard error why the program failed.
pub(crate) fn print_error(why: &str) {
    let _ = writeln!(io::stderr(), "gateway: {why}");
}
