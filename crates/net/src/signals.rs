//! Termination signals, SIGTERM and SIGINT, tied to a drain (L11).
//!
//! ```text
//!   first signal ──► armed; one byte ──► thread `signals` ──► the future ──► listeners: drain, report
//!   second signal ──► armed already: exits inside the signal handler
//! ```
//!
//! The second signal needs neither a running loop nor a thread. For the first signal a thread
//! sleeps in read(2). A loop does not watch the descriptor, because a loop that hangs, or that does not exist
//! yet, could not report the signal.

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

/// Reports the request to end the process: SIGTERM, as supervisors send it, or SIGINT, as Ctrl-C does.
///
/// Once a `Terminate` exists, the first of these signals no longer ends the process, and the second ends the process at
/// once, whatever the process is doing: with the exit status that shells report for the signal (143, 130), or
/// with a given status. Dropping the `Terminate` does not uninstall the handlers. Of several `Terminate`s each
/// reports the first signal.
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

/// The signal that requested the end of the process.
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

    /// Returns the exit status that shells give to a process ended by this signal: 128 plus the signal's
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
    /// Installs the handlers: from now on the first signal is reported here, and the second exits with its
    /// [`exit_status`](TerminationSignal::exit_status).
    ///
    /// # Errors
    /// A descriptor, a thread or a signal handler could not be created. If the descriptor or the thread fails, the
    /// signals keep their handlers.
    pub fn new() -> io::Result<Self> {
        Self::install(TerminationSignal::exit_status)
    }

    /// Installs the handlers as [`new`](Self::new) does, but the second signal exits with this status.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Self::new).
    pub fn with_exit_status(status: i32) -> io::Result<Self> {
        Self::install(|_| status)
    }

    fn install(status: impl Fn(TerminationSignal) -> i32) -> io::Result<Self> {
        // The sockets and the thread are created before any handler: a handler cannot be uninstalled, since a signal
        // without handlers would be ignored from then on.
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
            // The order matters: the first signal finds `armed` false, and its number is stored before the byte is
            // written.
            flag::register_conditional_shutdown(number, status(signal), armed.clone())?;
            flag::register(number, armed.clone())?;
            flag::register_usize(number, last_signal.clone(), at)?;
            pipe::register(number, write)?;
        }
        Ok(Self { first_signal: first_signal.shared() })
    }

    /// Returns a future that completes with the first signal; it can be awaited on any runtime, or joined.
    pub fn first_signal(&self) -> SharedFuture<TerminationSignal> {
        self.first_signal.clone()
    }

    /// Calls `f` with the first signal, on the global executor; at once if the signal has already arrived.
    pub fn on_first_signal(&self, f: impl FnOnce(TerminationSignal) + Send + 'static) {
        self.first_signal.add_listener(move |asked| {
            if let Ok(signal) = asked {
                f(*signal);
            }
        });
    }

    /// Drains this group at the first signal. Until then the group stays alive, even without another handle.
    ///
    /// With separate acceptor and worker groups, drain the acceptor group first.
    pub fn drain(&self, group: &EventLoopGroup, options: DrainOptions) {
        let group = group.clone();
        self.on_first_signal(move |_| drop(group.drain(options)));
    }
}

/// Waits for the first signal and completes the promise. If a handler could not be installed, the other end of
/// the pair is closed, and the promise is dropped.
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
