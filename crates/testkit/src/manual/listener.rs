//! A listening socket in memory.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::kernel::Kernel;
use super::link::link;
use super::peer::{Peer, PendingConnect};
use super::stream::{self, ConnectState, DriverNotifier, ManualStream, StreamEnd};

/// The driver's end of a listener. Dropping it closes the listener and the connections it has not accepted.
pub(super) struct ListenerEnd {
    listener: Arc<ManualListener>,
}

/// The test's control of a listener: connects to it and makes accepts fail. Clones control the same listener.
///
/// ```
/// use waterwheel_channel::driver::{IoEvent, OpenDriver, ReadPlan, Role};
/// use waterwheel_channel::Token;
/// use waterwheel_testkit::manual::Manual;
///
/// let manual = Manual::readiness();
/// let mut driver = manual.open()?;
/// let (io, port) = manual.listener();
/// driver.attach(Token::from_bits(0), io, Role::Listener)?;
/// driver.set_read(Token::from_bits(0), Some(ReadPlan::default()));
///
/// let peer = port.connect()?;
/// driver.wait(None)?;
/// let Some(IoEvent::Accepted(_, io, address)) = driver.next_event() else { panic!() };
/// assert_eq!(address, peer.address().into());
/// drop(io);
/// assert!(peer.is_closed());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct ListenerControl {
    kernel: Arc<Kernel>,
    listener: Arc<ManualListener>,
}

struct ManualListener {
    state: Mutex<ManualListenerState>,
}

struct ManualListenerState {
    backlog: VecDeque<io::Result<(StreamEnd, SocketAddr)>>,
    /// How many connections may be in the backlog.
    limit: usize,
    /// Connects that found no room in the backlog.
    pending: VecDeque<QueuedConnect>,
    closed: bool,
    notifier: Option<DriverNotifier>,
}

/// A connect that found no room in the backlog, and the socket that will be accepted.
struct QueuedConnect {
    connect: PendingConnect,
    end: StreamEnd,
    address: SocketAddr,
}

pub(super) fn listener(kernel: Arc<Kernel>) -> (ListenerEnd, ListenerControl) {
    let state = ManualListenerState {
        backlog: VecDeque::new(),
        limit: usize::MAX,
        pending: VecDeque::new(),
        closed: false,
        notifier: None,
    };
    let listener = Arc::new(ManualListener { state: Mutex::new(state) });
    (ListenerEnd { listener: listener.clone() }, ListenerControl { kernel, listener })
}

impl ListenerControl {
    /// Connects to the listener. The connection waits in the backlog until it is accepted; bytes may be sent at once.
    ///
    /// # Errors
    /// `ConnectionRefused` if the listener is closed.
    pub fn connect(&self) -> io::Result<Peer> {
        let (end, peer) = stream::new_connected(self.kernel.new_address());
        self.listener.push_backlog(Ok((end, peer.address())))?;
        Ok(peer)
    }

    /// Puts an error into the backlog: the accept that reaches this error fails.
    ///
    /// # Errors
    /// `ConnectionRefused` if the listener is closed.
    pub fn fail_accept(&self, error: impl Into<io::Error>) -> io::Result<()> {
        self.listener.push_backlog(Err(error.into()))
    }

    /// Connects a socket of another channel; the connect succeeds when there is room in the backlog.
    pub(super) fn connect_socket(&self, connect: PendingConnect) {
        let address = self.kernel.new_address();
        let stream = ManualStream::new(address, ConnectState::Open);
        link(connect.stream(), &stream);
        let end = StreamEnd::new(stream);
        let mut state = self.listener.lock();
        if state.closed {
            drop(state);
            return connect.refuse(io::ErrorKind::ConnectionRefused);
        }
        state.pending.push_back(QueuedConnect { connect, end, address });
        drop(state);
        self.listener.accept_pending();
    }

    /// Sets how many connections the backlog holds; further connects stay pending.
    pub(super) fn set_limit(&self, limit: usize) {
        self.listener.lock().limit = limit;
    }

    /// Returns how many connections and errors wait in the backlog.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.listener.lock().backlog.len()
    }

    /// True if the listener is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.listener.lock().closed
    }
}

impl fmt::Debug for ListenerControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListenerControl({} waiting)", self.backlog())
    }
}

impl ListenerEnd {
    pub(super) fn set_notifier(&self, notifier: DriverNotifier) {
        self.listener.lock().notifier = Some(notifier);
    }

    pub(super) fn has_backlog(&self) -> bool {
        !self.listener.lock().backlog.is_empty()
    }

    pub(super) fn accept(&self) -> Option<io::Result<(StreamEnd, SocketAddr)>> {
        let accepted = self.listener.lock().backlog.pop_front();
        self.listener.accept_pending();
        accepted
    }
}

impl Drop for ListenerEnd {
    fn drop(&mut self) {
        let mut state = self.listener.lock();
        state.closed = true;
        state.notifier = None;
        let backlog = std::mem::take(&mut state.backlog);
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        drop(backlog);
        for refused in pending {
            refused.connect.refuse(io::ErrorKind::ConnectionRefused);
        }
    }
}

impl ManualListener {
    /// Accepts pending connects as far as the backlog has room.
    fn accept_pending(&self) {
        let mut state = self.lock();
        let mut accepted_connects = Vec::new();
        state.pending.retain(|pending| !pending.connect.is_closed());
        while state.backlog.len() < state.limit
            && let Some(QueuedConnect { connect, end, address }) = state.pending.pop_front()
        {
            state.backlog.push_back(Ok((end, address)));
            accepted_connects.push(connect);
        }
        let notifier = state.notifier.clone();
        drop(state);
        if !accepted_connects.is_empty() {
            accepted_connects.into_iter().for_each(PendingConnect::accept_linked);
            if let Some(notifier) = notifier {
                notifier.notify();
            }
        }
    }

    fn push_backlog(&self, outcome: io::Result<(StreamEnd, SocketAddr)>) -> io::Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        state.backlog.push_back(outcome);
        let notifier = state.notifier.clone();
        drop(state);
        if let Some(notifier) = notifier {
            notifier.notify();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, ManualListenerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
