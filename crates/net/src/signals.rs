//! The wish that the process ends, SIGTERM or SIGINT, tied to a drain (L11).
//!
//! ```text
//!   first signal ──► armed; one byte ──► thread `signals` ──► the future ──► listeners: drain, say
//!   second signal ──► armed already: exits, in the signal handler itself
//! ```
//!
//! The second signal needs nobody: neither a loop that turns nor a thread that can be had. For the first
//! one a thread sleeps in a read. It could be a descriptor on a loop; but then the loop that hangs, or was
//! not made yet, would be the one to be told that it is to end.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;
use waterwheel_channel::{DrainOptions, EventLoopGroup};
use waterwheel_executor::{GlobalExecutor, Promise, SharedFuture};

/// Is told when the process is to end: by SIGTERM, as supervisors send it, or by SIGINT, as Ctrl-C does.
///
/// As soon as there is one, the first of these signals no longer ends the process, and the second ends it
/// at once, whatever it is doing: with the status that shells give such an end (143, 130), or one of your
/// own. That lasts as long as the process, even if this is dropped. There may be several: each is told.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::{DrainOptions, EventLoopGroup};
/// use waterwheel_net::{Auto, Terminate};
///
/// let group = EventLoopGroup::builder(Auto).threads(1).build()?;
/// // ... servers ...
/// let terminate = Terminate::new()?;
/// let drain = DrainOptions::within(Duration::from_secs(10));
/// terminate.drain(&group, drain.shutdown(Duration::ZERO, Duration::from_secs(5))?);
/// # use rustix::process::{Signal, getpid, kill_process};
/// # kill_process(getpid(), Signal::TERM)?;
/// group.termination().join()?; // And then main returns.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Terminate {
    first_signal: SharedFuture<TerminationSignal>,
}

/// Which signal asked for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationSignal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
}

impl TerminationSignal {
    const ALL: [Self; 2] = [Self::Terminate, Self::Interrupt];

    fn number(self) -> i32 {
        match self {
            Self::Terminate => SIGTERM,
            Self::Interrupt => SIGINT,
        }
    }

    /// The status of a process that such a signal has ended, as shells give it: 128 and the signal's
    /// number.
    #[must_use]
    pub fn exit_status(self) -> i32 {
        128 + self.number()
    }
}

impl fmt::Display for TerminationSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

impl Terminate {
    /// From now on the first signal is told here, and the second exits with its
    /// [`exit_status`](TerminationSignal::exit_status).
    ///
    /// # Errors
    /// No descriptor, no thread, or no signal handler could be had. The signals are as they were then.
    pub fn new() -> io::Result<Self> {
        Self::install(TerminationSignal::exit_status)
    }

    /// The same, but the second signal exits with this status.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_exit_status(status: i32) -> io::Result<Self> {
        Self::install(|_| status)
    }

    fn install(status: impl Fn(TerminationSignal) -> i32) -> io::Result<Self> {
        // All that may be refused comes before the first handler: one that is installed cannot be taken
        // back, since a signal whose handlers were all taken back is ignored from then on.
        let (read, write) = UnixStream::pair()?;
        let writes = [write.try_clone()?, write];
        let (armed, last_signal) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (mut promise, first_signal) = GlobalExecutor::get().new_promise();
        promise.set_uncancellable();
        let seen = last_signal.clone();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || report_first_signal(read, &seen, promise))?;
        let signals = TerminationSignal::ALL.into_iter().zip(writes).enumerate();
        for (at, (signal, write)) in signals {
            let number = signal.number();
            // In this order: the first signal finds it unarmed; which one it was is known before the
            // byte is there.
            flag::register_conditional_shutdown(number, status(signal), armed.clone())?;
            flag::register(number, armed.clone())?;
            flag::register_usize(number, last_signal.clone(), at)?;
            pipe::register(number, write)?;
        }
        Ok(Self { first_signal: first_signal.shared() })
    }

    /// Completes with the first signal: to be awaited, on any runtime, or waited for.
    pub fn first_signal(&self) -> SharedFuture<TerminationSignal> {
        self.first_signal.clone()
    }

    /// Calls `f` with the first signal, on the global executor; at once if that has come.
    pub fn on_first_signal(&self, f: impl FnOnce(TerminationSignal) + Send + 'static) {
        self.first_signal.add_listener(move |asked| {
            if let Ok(signal) = asked {
                f(*signal);
            }
        });
    }

    /// The first signal drains this group. Until then the group lives on, even without a handle.
    ///
    /// Of two groups, name first the one that accepts for the other.
    pub fn drain(&self, group: &EventLoopGroup, options: DrainOptions) {
        let group = group.clone();
        self.on_first_signal(move |_| drop(group.drain(options)));
    }
}

/// Waits for the first signal. If there never will be one, because its handler could not be had, the
/// other end is closed.
fn report_first_signal(
    mut read: UnixStream,
    last_signal: &AtomicUsize,
    promise: Promise<TerminationSignal>,
) {
    if read.read_exact(&mut [0]).is_ok() {
        let at = last_signal.load(Ordering::SeqCst) % TerminationSignal::ALL.len();
        promise.set_success(TerminationSignal::ALL[at]);
    }
}

impl fmt::Debug for Terminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminate").field("first_signal", &self.first_signal.is_done()).finish()
    }
}
