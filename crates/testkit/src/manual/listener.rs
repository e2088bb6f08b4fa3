//! A listening socket in memory.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::kernel::Kernel;
use super::link::link;
use super::peer::{Peer, PendingConnect};
use super::stream::{self, Connection, Stream, StreamEnd, Watcher};

/// The end that a driver is given. Dropping it closes the port and what it has not accepted.
pub(super) struct ListenerEnd {
    listener: Arc<Listener>,
}

/// Where a test connects to a listener. Clones are the same port.
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
    listener: Arc<Listener>,
}

struct Listener {
    state: Mutex<State>,
}

struct State {
    backlog: VecDeque<io::Result<(StreamEnd, SocketAddr)>>,
    /// So many dials may be in the backlog.
    limit: usize,
    /// Those that found no room there.
    waiting: VecDeque<Waiting>,
    closed: bool,
    watcher: Option<Watcher>,
}

/// A dial that is not answered yet, and what will be accepted then.
struct Waiting {
    dial: PendingConnect,
    end: StreamEnd,
    address: SocketAddr,
}

pub(super) fn listener(kernel: Arc<Kernel>) -> (ListenerEnd, ListenerControl) {
    let state = State {
        backlog: VecDeque::new(),
        limit: usize::MAX,
        waiting: VecDeque::new(),
        closed: false,
        watcher: None,
    };
    let listener = Arc::new(Listener { state: Mutex::new(state) });
    (ListenerEnd { listener: listener.clone() }, ListenerControl { kernel, listener })
}

impl ListenerControl {
    /// Connects. The connection waits in the backlog until it is accepted; bytes may be sent at once.
    ///
    /// # Errors
    /// `ConnectionRefused` if the listener is closed.
    pub fn connect(&self) -> io::Result<Peer> {
        let (end, peer) = stream::connected(self.kernel.new_address());
        self.listener.arrive(Ok((end, peer.address())))?;
        Ok(peer)
    }

    /// Puts an error into the backlog: the accept that comes to it fails.
    ///
    /// # Errors
    /// `ConnectionRefused` if the listener is closed.
    pub fn fail_accept(&self, error: impl Into<io::Error>) -> io::Result<()> {
        self.listener.arrive(Err(error.into()))
    }

    /// Connects one who dials: answered when there is room in the backlog.
    pub(super) fn admit(&self, dial: PendingConnect) {
        let address = self.kernel.new_address();
        let stream = Stream::new(address, Connection::Open);
        link(dial.stream(), &stream);
        let end = StreamEnd::new(stream);
        let mut state = self.listener.lock();
        if state.closed {
            drop(state);
            return dial.refuse(io::ErrorKind::ConnectionRefused);
        }
        state.waiting.push_back(Waiting { dial, end, address });
        drop(state);
        self.listener.admit_waiting();
    }

    /// From now on so many dials may wait to be accepted; more are not answered.
    pub(super) fn set_limit(&self, limit: usize) {
        self.listener.lock().limit = limit;
    }

    /// How much waits to be accepted.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.listener.lock().backlog.len()
    }

    /// Whether the listener is closed.
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
    pub(super) fn watch(&self, watcher: Watcher) {
        self.listener.lock().watcher = Some(watcher);
    }

    pub(super) fn has_arrivals(&self) -> bool {
        !self.listener.lock().backlog.is_empty()
    }

    pub(super) fn accept(&self) -> Option<io::Result<(StreamEnd, SocketAddr)>> {
        let accepted = self.listener.lock().backlog.pop_front();
        self.listener.admit_waiting();
        accepted
    }
}

impl Drop for ListenerEnd {
    fn drop(&mut self) {
        let mut state = self.listener.lock();
        state.closed = true;
        state.watcher = None;
        let backlog = std::mem::take(&mut state.backlog);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(backlog);
        for unanswered in waiting {
            unanswered.dial.refuse(io::ErrorKind::ConnectionRefused);
        }
    }
}

impl Listener {
    /// Answers those who dialled, as far as there is room.
    fn admit_waiting(&self) {
        let mut state = self.lock();
        let mut answered = Vec::new();
        state.waiting.retain(|waiting| !waiting.dial.is_closed());
        while state.backlog.len() < state.limit
            && let Some(Waiting { dial, end, address }) = state.waiting.pop_front()
        {
            state.backlog.push_back(Ok((end, address)));
            answered.push(dial);
        }
        let watcher = state.watcher.clone();
        drop(state);
        if !answered.is_empty() {
            answered.into_iter().for_each(PendingConnect::answer);
            if let Some(watcher) = watcher {
                watcher.touch();
            }
        }
    }

    fn arrive(&self, arrival: io::Result<(StreamEnd, SocketAddr)>) -> io::Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        state.backlog.push_back(arrival);
        let watcher = state.watcher.clone();
        drop(state);
        if let Some(watcher) = watcher {
            watcher.touch();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
