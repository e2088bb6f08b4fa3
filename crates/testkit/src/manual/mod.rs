//! A driver without an operating system: sockets in memory, a virtual clock, controlled by the test.
//!
//! [`Manual`] is both the driver factory that a loop is built with and the test's control of its drivers: it creates
//! the sockets that a driver gets, and the test is the peer.
//!
//! ```text
//!    the loop                                     the test
//!       │  attach, write, set_read …                 │  send, finish, reset, connect, set_ready …
//!       ▼                                            ▼
//!   ManualDriver ──── Io ═══ stream in memory ═══ Peer, ListenerControl, PendingConnect, ManualForeignSource
//!       ▲                                            │
//!       └──── changed: a wait looks again ───────────┘
//! ```
//!
//! ```
//! use waterwheel_channel::driver::{IoEvent, OpenDriver, ReadPlan, Role};
//! use waterwheel_channel::Token;
//! use waterwheel_testkit::manual::Manual;
//!
//! let manual = Manual::readiness();
//! let mut driver = manual.open()?;
//! let (io, peer) = manual.pair();
//! let token = Token::from_bits(0);
//! driver.attach(token, io, Role::Stream)?;
//! driver.set_read(token, Some(ReadPlan::default()));
//!
//! peer.send("hello");
//! assert_eq!(driver.wait(None)?.ready, 1);
//! assert!(matches!(driver.next_event(), Some(IoEvent::LastRead(_, bytes)) if bytes == "hello"));
//! assert!(driver.next_event().is_none());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Readiness and completion
//!
//! - [`Manual::readiness`] completes calls at once, as epoll does: a write is `Done(n)`, or `Full` on a full buffer and
//!   later `Wrote(0)`; the read that ends a round is a `LastRead`; a detach is `Done`.
//! - [`Manual::completion`] completes calls later, as io_uring does: a write that finds room is `Pending`, keeps clones
//!   of the chunks, and ends in `Wrote(n)`; a detach with an operation in flight (a write, a connect, reads that are
//!   on, a foreign registration) is `Pending` until `Detached`.
//!
//! Operations in flight complete in the next round, or when the test allows it:
//! [`hold_completions`](Manual::hold_completions) and [`release`](Manual::release).
//!
//! # ClockMode
//!
//! No wait sleeps in real time. The [`ClockMode`] decides how a wait with a deadline behaves while no event is ready:
//!
//! - [`ClockMode::Manual`], the default: the wait blocks until the test [advances](Manual::advance) the clock. The test
//!   decides the order of the peer's actions and the timers, whichever thread is faster. A test that does not advance
//!   the clock hangs in every run, not once in a hundred.
//! - [`ClockMode::AutoAdvance`]: the wait moves the clock to its deadline and returns. For a manual loop, whose thread
//!   cannot advance the clock while it waits, and to let the timers of a shutdown expire at the end of a test. While
//!   another thread is the peer, every timeout wins the race against it.
//!
//! [`wait_idle`](Manual::wait_idle) blocks until all loops are asleep with nothing to do; then a test may
//! check what happened, and what did not.

mod datagram_network;
mod driver;
mod foreign;
mod kernel;
mod link;
mod listener;
mod peer;
mod registration;
mod sockets;
mod stream;
mod stream_network;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::driver::{Driver, Io, OpenDriver};
use waterwheel_executor::{Nanos, VirtualClock};

use self::kernel::Kernel;
use crate::shuffled::SplitMix64;

pub use self::datagram_network::{DATAGRAM_QUEUE_LEN, DatagramNetwork, DatagramPeer};
pub use self::driver::ManualDriver;
pub use self::foreign::ManualForeignSource;
pub use self::kernel::{ClockMode, DriverCounts};
pub use self::listener::ListenerControl;
pub use self::peer::{Peer, PendingConnect};
pub use self::sockets::ManualSockets;
pub use self::stream::SEND_BUFFER;
pub use self::stream_network::StreamNetwork;

/// How long a test's thread waits for a loop, in real time, before it panics: far longer than a busy machine needs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Opens manual drivers, creates their sockets, and controls them all. Clones control the same drivers.
#[derive(Clone)]
pub struct Manual {
    kernel: Arc<Kernel>,
}

/// When drivers complete calls: at once or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompletionMode {
    Readiness,
    Completion,
}

impl Manual {
    /// Creates a factory of drivers that complete calls at once, as epoll does.
    #[must_use]
    pub fn readiness() -> Self {
        Self::new(CompletionMode::Readiness, VirtualClock::new(), ClockMode::default())
    }

    /// Creates a factory of drivers that complete calls later, as io_uring does.
    #[must_use]
    pub fn completion() -> Self {
        Self::new(CompletionMode::Completion, VirtualClock::new(), ClockMode::default())
    }

    fn new(mode: CompletionMode, clock: VirtualClock, clock_mode: ClockMode) -> Self {
        Self { kernel: Arc::new(Kernel::new(mode, clock, clock_mode)) }
    }

    /// Replaces the clock; call this before a driver is opened. Move the clock with [`advance`](Self::advance): a
    /// wait does not notice when the clock is moved elsewhere.
    #[must_use]
    pub fn with_clock(self, clock: VirtualClock) -> Self {
        Self::new(self.kernel.mode, clock, self.kernel.clock_mode())
    }

    /// Sets the [`ClockMode`].
    #[must_use]
    pub fn with_clock_mode(self, clock_mode: ClockMode) -> Self {
        self.set_clock_mode(clock_mode);
        self
    }

    /// Returns the clock that all drivers of this factory share.
    #[must_use]
    pub fn clock(&self) -> VirtualClock {
        self.kernel.clock.clone()
    }

    /// Sets the [`ClockMode`], also for waits that are blocked.
    pub fn set_clock_mode(&self, clock_mode: ClockMode) {
        self.kernel.set_clock_mode(clock_mode);
    }

    /// Advances the clock by a duration, and ends the waits whose deadline is reached.
    pub fn advance(&self, by: Duration) {
        self.kernel.clock.advance(by);
        self.kernel.notify_clock_moved();
    }

    /// Advances the clock to an instant, and ends the waits whose deadline is reached.
    pub fn advance_to(&self, to: Nanos) {
        self.kernel.clock.advance_to(to);
        self.kernel.notify_clock_moved();
    }

    /// Creates a connected stream: the caller attaches the [`Io`] as `Stream`, and the test is its peer.
    #[must_use]
    pub fn pair(&self) -> (Io, Peer) {
        let (end, peer) = stream::new_connected(self.kernel.new_address());
        (Io::new(end), peer)
    }

    /// Creates a listening socket, and the control that connects to it.
    #[must_use]
    pub fn listener(&self) -> (Io, ListenerControl) {
        let (end, port) = listener::listener(self.kernel.clone());
        (Io::new(end), port)
    }

    /// Creates a socket to be attached as `Connecting` to any address, and the test's side, which accepts or refuses.
    #[must_use]
    pub fn connecting(&self) -> (Io, PendingConnect) {
        let (end, dial) = stream::new_connecting(self.kernel.new_address());
        (Io::new(end), dial)
    }

    /// Returns a socket factory for [`Stream`](waterwheel_channel::Stream),
    /// [`Listener`](waterwheel_channel::Listener) and bootstraps, whose peers the test plays.
    #[must_use]
    pub fn sockets(&self) -> ManualSockets {
        ManualSockets::new(self.clone())
    }

    /// Returns a socket factory whose sockets reach each other, for tests with a server and its clients.
    #[must_use]
    pub fn network(&self) -> StreamNetwork {
        StreamNetwork::new(self.clone())
    }

    /// Creates a foreign source that is not ready, and the control that makes it ready.
    #[must_use]
    pub fn foreign_source(&self) -> (Io, ManualForeignSource) {
        let (end, source) = foreign::foreign_source();
        (Io::new(end), source)
    }

    /// Holds all completions and readiness back until [`release`](Self::release). Wakes and deadlines still work.
    pub fn hold_completions(&self) {
        self.kernel.hold(true);
    }

    /// Lets held operations complete.
    pub fn release(&self) {
        self.kernel.hold(false);
    }

    /// Blocks until every open driver is asleep: in a wait, with nothing ready, not woken, its deadline in the future.
    /// A driver whose loop has not started is not asleep: the loop still has to take its first turn.
    ///
    /// # Panics
    /// If a driver is still not asleep after twenty seconds.
    pub fn wait_idle(&self) {
        self.kernel.wait_idle();
    }

    /// Opens a driver whose events are shuffled by `random`.
    pub(crate) fn open_shuffled(&self, random: SplitMix64) -> ManualDriver {
        ManualDriver::new(self.kernel.clone(), Some(random))
    }

    /// Returns how often the drivers of this factory were called so far.
    #[must_use]
    pub fn counts(&self) -> DriverCounts {
        self.kernel.counts()
    }
}

impl OpenDriver for Manual {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(ManualDriver::new(self.kernel.clone(), None)))
    }
}

impl fmt::Debug for Manual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manual({:?})", self.kernel.mode)
    }
}
