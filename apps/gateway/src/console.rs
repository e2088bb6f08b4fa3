//! Standard output: the one place that prints.
//!
//! The reader of the output may have gone (`| head -1`) or pause (a pager), or the disk may be full: the gateway
//! serves all the same. So a thread of its own prints. What it cannot print is lost, and nobody waits for it but
//! for a moment at the very end.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// How many texts may wait to be printed: a minute of tables. Those beyond are lost.
const WAITING: usize = 64;

/// How long the end of the program waits for what is still to be printed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Prints texts in order, as far as standard output takes them.
#[derive(Clone)]
pub(crate) struct Console(SyncSender<String>);

/// Tells when everything was printed.
pub(crate) struct Printed(Receiver<()>);

/// Starts the thread that prints. If there is none nothing is printed.
pub(crate) fn open() -> (Console, Printed) {
    let (texts, to_print) = sync_channel::<String>(WAITING);
    let (printing, printed) = channel::<()>();
    let print = move || {
        let _printing = printing;
        for text in to_print {
            let mut out = io::stdout().lock();
            // The receiver may be gone already.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    };
    let _detached = thread::Builder::new().name(String::from("console")).spawn(print);
    (Console(texts), Printed(printed))
}

impl Console {
    /// Prints a text, after those before it.
    pub(crate) fn print(&self, text: String) {
        // Lost if nobody reads for so long.
        let _ = self.0.try_send(text);
    }

    /// Prints a line.
    pub(crate) fn line(&self, line: &str) {
        self.print(format!("{line}\n"));
    }
}

impl Printed {
    /// Waits until what was to be printed is, or for as long as anybody should have to wait for that. Every
    /// [`Console`] is gone by then.
    pub(crate) fn wait(self) {
        // Nothing is sent: it ends with the thread, or after that time.
        let _ = self.0.recv_timeout(PATIENCE);
    }
}

/// Says on standard error why the program ends.
pub(crate) fn print_error(why: &str) {
    let _ = writeln!(io::stderr(), "gateway: {why}");
}
