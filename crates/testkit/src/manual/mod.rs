//! A driver driven by hand: streams in memory, a clock that moves when told, no operating system.
//!
//! [`Manual`] is both the factory that a loop is built with and the test's remote control: it makes
//! what the driver is given, and the test plays the other side.
//!
//! ```text
//!    the loop                                     the test
//!       │  attach, write, set_read …                 │  send, finish, reset, connect, set_ready …
//!       ▼                                            ▼
//!   ManualDriver ──── Io ═══ stream in memory ═══ Peer, ListenerControl, PendingConnect, ForeignSource
//!       ▲                                            │
//!       └───────── touched: a wait looks again ──────┘
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
//! # Two kinds
//!
//! - [`Manual::readiness`] answers at once, as epoll does: a write is `Done(n)`, or `Full` on a
//!   full buffer and then `Wrote(0)`; the read that ends a round is a `LastRead`; a detach is `Done`.
//! - [`Manual::completion`] answers later, as io_uring does: a write that finds room is `Pending`,
//!   keeps clones of the chunks, and ends in `Wrote(n)`; a detach with something in flight (a write, a connect,
//!   reads that are on, a foreign registration) is `Pending` until `Detached`.
//!
//! What is in flight completes in the next round, or as late as the test likes:
//! [`hold_completions`](Manual::hold_completions) and [`release`](Manual::release).
//!
//! # ClockMode
//!
//! No wait sleeps in real time. What a wait does that has a deadline and nothing to do is a choice:
//!
//! - [`ClockMode::Manual`], the default: it waits for the test to [`advance`](Manual::advance) the clock.
//!   The order of what the peer does and what the timers do is the test's, whichever thread is
//!   faster; a test that forgot about time hangs every time, not once in a hundred runs.
//! - [`ClockMode::AutoAdvance`]: it moves the clock to its deadline and returns. For a loop that is driven by the
//!   test's own thread, which could not advance the clock while it waits, and to let the timers of a
//!   shutdown run out at the end of a test. While another thread plays the peer, every timeout wins
//!   the race against it.
//!
//! [`wait_idle`](Manual::wait_idle) blocks until all loops are asleep with nothing to do: after it
//! a test may look at what happened, and at what did not.

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
pub use self::foreign::ForeignSource;
pub use self::kernel::{ClockMode, DriverCounts};
pub use self::listener::ListenerControl;
pub use self::peer::{Peer, PendingConnect};
pub use self::sockets::ManualSockets;
pub use self::stream::SEND_BUFFER;
pub use self::stream_network::StreamNetwork;

/// How long a test's thread waits for a loop, in real time, before it panics: far beyond what a busy
/// machine needs, and short enough that somebody still reads the message.
const PATIENCE: Duration = Duration::from_secs(20);

/// Opens manual drivers, makes what they are given, and controls them all. Clones are the same one.
#[derive(Clone)]
pub struct Manual {
    kernel: Arc<Kernel>,
}

/// What it answers at once and what later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Readiness,
    Completion,
}

impl Manual {
    /// Its drivers answer at once, as epoll does.
    #[must_use]
    pub fn readiness() -> Self {
        Self::new(Mode::Readiness, VirtualClock::new(), ClockMode::default())
    }

    /// Its drivers answer later, as io_uring does.
    #[must_use]
    pub fn completion() -> Self {
        Self::new(Mode::Completion, VirtualClock::new(), ClockMode::default())
    }

    fn new(mode: Mode, clock: VirtualClock, time: ClockMode) -> Self {
        Self { kernel: Arc::new(Kernel::new(mode, clock, time)) }
    }

    /// The same with another clock; to be called before a driver is opened. Move the clock with
    /// [`advance`](Self::advance) nevertheless: nobody tells a wait when it is moved elsewhere.
    #[must_use]
    pub fn with_clock(self, clock: VirtualClock) -> Self {
        Self::new(self.kernel.mode, clock, self.kernel.time())
    }

    /// The same with another [`ClockMode`].
    #[must_use]
    pub fn with_clock_mode(self, time: ClockMode) -> Self {
        self.set_clock_mode(time);
        self
    }

    /// The clock of all its drivers.
    #[must_use]
    pub fn clock(&self) -> VirtualClock {
        self.kernel.clock.clone()
    }

    /// Changes what a wait does about its deadline, the waits under way included.
    pub fn set_clock_mode(&self, time: ClockMode) {
        self.kernel.set_clock_mode(time);
    }

    /// Moves the clock forward, and ends the waits whose time has come.
    pub fn advance(&self, by: Duration) {
        self.kernel.clock.advance(by);
        self.kernel.clock_moved();
    }

    /// Moves the clock forward to an instant, and ends the waits whose time has come.
    pub fn advance_to(&self, to: Nanos) {
        self.kernel.clock.advance_to(to);
        self.kernel.clock_moved();
    }

    /// A connected stream: attach the [`Io`] as a `Stream`, and be its peer.
    #[must_use]
    pub fn pair(&self) -> (Io, Peer) {
        let (end, peer) = stream::connected(self.kernel.new_address());
        (Io::new(end), peer)
    }

    /// A listening socket, and the port to connect to it.
    #[must_use]
    pub fn listener(&self) -> (Io, ListenerControl) {
        let (end, port) = listener::listener(self.kernel.clone());
        (Io::new(end), port)
    }

    /// A socket to be attached as `Connecting`, to whatever address, and the side that answers.
    #[must_use]
    pub fn connecting(&self) -> (Io, PendingConnect) {
        let (end, dial) = stream::dialling(self.kernel.new_address());
        (Io::new(end), dial)
    }

    /// The sockets of channels: for [`Stream`](waterwheel_channel::Stream),
    /// [`Listener`](waterwheel_channel::Listener) and bootstraps.
    #[must_use]
    pub fn sockets(&self) -> ManualSockets {
        ManualSockets::new(self.clone())
    }

    /// Sockets of channels that reach each other: for tests with a server and its clients.
    #[must_use]
    pub fn network(&self) -> StreamNetwork {
        StreamNetwork::new(self.clone())
    }

    /// A foreign source, ready for nothing, and the hand that makes it ready.
    #[must_use]
    pub fn foreign(&self) -> (Io, ForeignSource) {
        let (end, source) = foreign::foreign();
        (Io::new(end), source)
    }

    /// Nothing completes from now on, and nothing becomes ready: the kernel is busy elsewhere. Wakes
    /// and deadlines are kept.
    pub fn hold_completions(&self) {
        self.kernel.hold(true);
    }

    /// Everything that was held completes.
    pub fn release(&self) {
        self.kernel.hold(false);
    }

    /// Blocks until every driver that is open is asleep: in a wait, nothing ready, not woken, its
    /// deadline in the future. A driver whose loop was not started yet is not asleep: its first turn
    /// is still to come.
    ///
    /// # Panics
    /// If that takes longer than twenty seconds.
    pub fn wait_idle(&self) {
        self.kernel.wait_idle();
    }

    /// Opens a driver whose events come in this order.
    pub(crate) fn open_in_order(&self, dice: SplitMix64) -> ManualDriver {
        ManualDriver::new(self.kernel.clone(), Some(dice))
    }

    /// What all its drivers have done so far.
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
