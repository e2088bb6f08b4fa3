//! Datagram sockets in memory that reach each other by address.
//!
//! ```text
//!   socket ── send ──► queue of the address ── receive ──► socket, or DatagramPeer
//!                        │ full: the sender waits until a datagram is received
//!                        └ none: lost; a connected socket gets ConnectionRefused later
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{
    DatagramSocketFactory, SocketKind, Transport, TransportFactory,
};
use waterwheel_channel::{Address, Datagram, Datagrams};

use super::stream::DriverNotifier;

/// How many datagrams an address queues before senders wait, unless the test sets another capacity.
pub const DATAGRAM_QUEUE_LEN: usize = 64;

/// The first ephemeral port.
const FIRST_PORT: u16 = 49_152;

/// The maximum length of a datagram, as with UDP over IPv4.
const MAX_DATAGRAM_LEN: usize = 65_507;

/// A factory of datagram sockets for channels. Clones are the same network.
///
/// A sender waits while the queue of its destination is full, as with Unix sockets. A datagram to an address without a
/// socket is lost, and a channel connected to that address gets `ConnectionRefused` later, as with UDP. Socket options
/// are unsupported.
///
/// ```
/// use std::net::SocketAddr;
/// use waterwheel_channel::{Bootstrap, Datagram, EventLoopGroup};
/// use waterwheel_testkit::manual::{Manual, DatagramNetwork, ClockMode};
///
/// let manual = Manual::readiness();
/// let network = DatagramNetwork::new();
/// let group = EventLoopGroup::builder(manual.clone()).threads(1).build()?;
/// let channel = Bootstrap::new(&group, network.clone()).bind("192.0.2.1:37").join()?;
/// let there: SocketAddr = "192.0.2.2:7".parse()?;
/// let peer = network.open_peer(there)?;
/// channel.write_and_flush(Datagram::to(there, "hello")).join()?;
/// assert_eq!(peer.receive().unwrap().bytes(), "hello");
/// # manual.set_clock_mode(ClockMode::AutoAdvance);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct DatagramNetwork {
    /// Locked by the loops whose channels send and receive, and by the test.
    state: Arc<Mutex<DatagramNetworkState>>,
}

#[derive(Default)]
struct DatagramNetworkState {
    queues: BTreeMap<SocketAddr, DatagramQueue>,
    /// How many ephemeral ports were assigned.
    assigned_ports: u16,
}

/// The state of a bound address.
struct DatagramQueue {
    waiting: VecDeque<Datagram>,
    /// The maximum number of queued datagrams.
    capacity: usize,
    /// The connected peer; datagrams from other addresses are dropped.
    peer: Option<SocketAddr>,
    /// The full destination that a send waits for.
    blocked_on: Option<SocketAddr>,
    /// True if a datagram to the connected peer found no socket: `ConnectionRefused` is due.
    refused: bool,
    notifier: Option<DriverNotifier>,
}

impl DatagramNetwork {
    /// Creates a network without sockets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a peer for the test to this address.
    ///
    /// # Errors
    /// `AddrInUse` if the address is bound.
    pub fn open_peer(&self, at: SocketAddr) -> io::Result<DatagramPeer> {
        Ok(DatagramPeer { end: self.open_at(at, None)? })
    }

    fn open_at(&self, mut at: SocketAddr, peer: Option<SocketAddr>) -> io::Result<DatagramEnd> {
        let mut state = self.lock();
        if at.port() == 0 {
            at.set_port(FIRST_PORT + state.assigned_ports % (u16::MAX - FIRST_PORT));
            state.assigned_ports = state.assigned_ports.wrapping_add(1);
        }
        if state.queues.contains_key(&at) {
            return Err(ErrorKind::AddrInUse.into());
        }
        let (capacity, waiting) = (DATAGRAM_QUEUE_LEN, VecDeque::new());
        let (blocked_on, refused, notifier) = (None, false, None);
        state
            .queues
            .insert(at, DatagramQueue { waiting, capacity, peer, blocked_on, refused, notifier });
        Ok(DatagramEnd { network: self.clone(), at })
    }

    fn lock(&self) -> MutexGuard<'_, DatagramNetworkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TransportFactory for DatagramNetwork {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Datagrams::new(self.clone()))
    }
}

impl DatagramSocketFactory for DatagramNetwork {
    fn kind(&self) -> &'static SocketKind {
        static MANUAL_DATAGRAM: SocketKind = SocketKind::new("manual-datagram");
        &MANUAL_DATAGRAM
    }

    fn open(
        &self,
        local: Option<&Address>,
        peer: Option<&Address>,
        options: &[SocketOption],
    ) -> io::Result<(Io, Address)> {
        if let Some(option) = options.first() {
            let what = format!("a manual datagram socket does not support the option {option}");
            return Err(io::Error::new(ErrorKind::Unsupported, what));
        }
        let any = SocketAddr::from(([192, 0, 2, 1], 0));
        let at = local.map_or(Ok(any), ip)?;
        let end = self.open_at(at, peer.map(ip).transpose()?).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot be bound to {at}: {error}"))
        })?;
        let at = end.at;
        Ok((Io::new(end), at.into()))
    }
}

impl fmt::Debug for DatagramNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().queues.keys()).finish()
    }
}

/// The test's datagram socket. Dropping it unbinds its address.
pub struct DatagramPeer {
    end: DatagramEnd,
}

impl DatagramPeer {
    /// Returns the address of the peer.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.end.at
    }

    /// Sends a datagram to an address. Returns `false` if the queue of that address is full.
    ///
    /// # Errors
    /// `InvalidInput` if the datagram is too long.
    pub fn send(&self, to: SocketAddr, bytes: impl Into<Bytes>) -> io::Result<bool> {
        self.end.send(&Datagram::to(to, bytes))
    }

    /// Takes the next datagram, if one has arrived.
    #[must_use]
    pub fn receive(&self) -> Option<Datagram> {
        self.end.receive(usize::MAX)
    }

    /// Sets how many datagrams may wait for this peer; further senders wait.
    pub fn set_capacity(&self, capacity: usize) {
        self.end.network.change_and_notify(|state, notified| {
            if let Some(own) = state.queues.get_mut(&self.end.at) {
                own.capacity = capacity;
            }
            state.notify_blocked_on(self.end.at, notified);
        });
    }
}

impl fmt::Debug for DatagramPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatagramPeer({})", self.end.at)
    }
}

/// The driver's end of a datagram socket.
pub(super) struct DatagramEnd {
    network: DatagramNetwork,
    at: SocketAddr,
}

impl DatagramEnd {
    pub(super) fn set_notifier(&self, notifier: DriverNotifier) {
        self.with_queue(|own| own.notifier = Some(notifier));
    }

    pub(super) fn has_input(&self) -> bool {
        self.with_queue(|own| !own.waiting.is_empty())
    }

    /// Takes the next datagram, truncated to `size` bytes.
    pub(super) fn receive(&self, size: usize) -> Option<Datagram> {
        let taken = self.network.change_and_notify(|state, notified| {
            let taken = state.queues.get_mut(&self.at)?.waiting.pop_front();
            state.notify_blocked_on(self.at, notified);
            taken
        })?;
        let (whole, bytes) =
            (taken.whole_len(), taken.bytes().slice(..size.min(taken.whole_len())));
        Some(Datagram::received(taken.peer().cloned(), bytes, whole))
    }

    /// Sends a datagram; returns `false` if it has to wait for room.
    pub(super) fn send(&self, datagram: &Datagram) -> io::Result<bool> {
        if datagram.bytes().len() > MAX_DATAGRAM_LEN {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "the datagram is too long (EMSGSIZE), longer than 65,507 bytes",
            ));
        }
        let peer = self.with_queue(|own| own.peer);
        let to = match (datagram.peer(), peer) {
            (Some(to), _) => ip(to)?,
            (None, Some(peer)) => peer,
            (None, None) => {
                let what = "a destination is required: the datagram has no address";
                return Err(io::Error::new(ErrorKind::NotConnected, what));
            }
        };
        Ok(self.network.change_and_notify(|state, notified| {
            match state.queues.get_mut(&to) {
                Some(other) if other.peer.is_some_and(|peer| peer != self.at) => {}
                Some(other) if other.waiting.len() >= other.capacity => {
                    state.queue_of(self.at).blocked_on = Some(to);
                    return false;
                }
                Some(other) => {
                    let bytes = datagram.bytes().clone();
                    let whole = bytes.len();
                    let arrived = Datagram::received(Some(self.at.into()), bytes, whole);
                    other.waiting.push_back(arrived);
                    notified.extend(other.notifier.clone());
                }
                None => {
                    let own = state.queue_of(self.at);
                    own.refused = own.peer == Some(to);
                    notified.extend(own.notifier.clone());
                }
            }
            true
        }))
    }

    /// True if a send that had to wait for room may be repeated.
    pub(super) fn may_send(&self) -> bool {
        let mut state = self.network.lock();
        let Some(to) = state.queue_of(self.at).blocked_on else { return true };
        state.queues.get(&to).is_none_or(|other| other.waiting.len() < other.capacity)
    }

    pub(super) fn has_error(&self) -> bool {
        self.with_queue(|own| own.refused)
    }

    pub(super) fn take_error(&self) -> Option<io::Error> {
        let refused = self.with_queue(|own| std::mem::take(&mut own.refused));
        refused.then(|| ErrorKind::ConnectionRefused.into())
    }

    fn with_queue<R>(&self, f: impl FnOnce(&mut DatagramQueue) -> R) -> R {
        f(self.network.lock().queue_of(self.at))
    }
}

impl Drop for DatagramEnd {
    fn drop(&mut self) {
        self.network.change_and_notify(|state, notified| {
            state.queues.remove(&self.at);
            state.notify_blocked_on(self.at, notified);
        });
    }
}

impl DatagramNetwork {
    /// Changes the state, and then notifies the drivers that `how` has listed.
    fn change_and_notify<R>(
        &self,
        how: impl FnOnce(&mut DatagramNetworkState, &mut Vec<DriverNotifier>) -> R,
    ) -> R {
        let mut notified = Vec::new();
        let result = how(&mut self.lock(), &mut notified);
        notified.iter().for_each(DriverNotifier::notify);
        result
    }
}

impl DatagramNetworkState {
    /// Returns the queue of a bound address.
    fn queue_of(&mut self, at: SocketAddr) -> &mut DatagramQueue {
        self.queues.get_mut(&at).expect("the queue exists while its socket does")
    }

    fn notify_blocked_on(&self, at: SocketAddr, notified: &mut Vec<DriverNotifier>) {
        let blocked = self.queues.values().filter(|other| other.blocked_on == Some(at));
        notified.extend(blocked.filter_map(|other| other.notifier.clone()));
    }
}

fn ip(address: &Address) -> io::Result<SocketAddr> {
    match address {
        Address::Ip(address) => Ok(*address),
        other => {
            let what = format!("{other} is not an IP address");
            Err(io::Error::new(ErrorKind::InvalidInput, what))
        }
    }
}
