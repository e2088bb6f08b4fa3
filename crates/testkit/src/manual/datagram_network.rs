//! Datagrams in memory: sockets that reach each other by address.
//!
//! ```text
//!   socket ── send ──► the box at the address ── receive ──► socket, or DatagramPeer
//!                        │ full: whoever sends waits until something is taken out
//!                        └ not there: lost; a socket that is connected to it is told later
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

use super::stream::Watcher;

/// So many datagrams wait at an address, unless told otherwise; the next sender waits too.
pub const DATAGRAM_QUEUE_LEN: usize = 64;

/// Ports that nobody asked for begin here.
const FIRST_PORT: u16 = 49_152;

/// The longest there may be: as with UDP.
const LONGEST: usize = 65_507;

/// Makes the sockets of channels of datagrams. Clones are the same office.
///
/// Whoever sends to an address where too many wait waits too, as with Unix sockets. What is sent to where nobody
/// is is lost; a channel that is connected there is told later, as with UDP. There are no options.
///
/// ```
/// use std::net::SocketAddr;
/// use waterwheel_channel::{Bootstrap, Datagram, EventLoopGroup};
/// use waterwheel_testkit::manual::{Manual, DatagramNetwork, ClockMode};
///
/// let manual = Manual::readiness();
/// let office = DatagramNetwork::new();
/// let group = EventLoopGroup::builder(manual.clone()).threads(1).build()?;
/// let channel = Bootstrap::new(&group, office.clone()).bind("192.0.2.1:37").join()?;
/// let there: SocketAddr = "192.0.2.2:7".parse()?;
/// let friend = office.open_peer(there)?;
/// channel.write_and_flush(Datagram::to(there, "hello")).join()?;
/// assert_eq!(friend.receive().unwrap().bytes(), "hello");
/// # manual.set_clock_mode(ClockMode::AutoAdvance);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct DatagramNetwork {
    /// Touched by the loops whose channels send and receive, and by the test.
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    boxes: BTreeMap<SocketAddr, Mailbox>,
    /// So many ports were given to those who asked for any.
    given: u16,
}

/// What is known of an address where somebody is.
struct Mailbox {
    waiting: VecDeque<Datagram>,
    /// So many may wait.
    room: usize,
    /// Whom it is connected to: nobody else is heard.
    peer: Option<SocketAddr>,
    /// It waits for room there.
    blocked_on: Option<SocketAddr>,
    /// What it sent has not arrived.
    refused: bool,
    watcher: Option<Watcher>,
}

impl DatagramNetwork {
    /// One with nobody.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Somebody at this address who is no channel.
    ///
    /// # Errors
    /// `AddrInUse`: somebody is there.
    pub fn open_peer(&self, at: SocketAddr) -> io::Result<DatagramPeer> {
        Ok(DatagramPeer { end: self.open_at(at, None)? })
    }

    fn open_at(&self, mut at: SocketAddr, peer: Option<SocketAddr>) -> io::Result<DatagramEnd> {
        let mut state = self.lock();
        if at.port() == 0 {
            at.set_port(FIRST_PORT + state.given % (u16::MAX - FIRST_PORT));
            state.given = state.given.wrapping_add(1);
        }
        if state.boxes.contains_key(&at) {
            return Err(ErrorKind::AddrInUse.into());
        }
        let (room, waiting) = (DATAGRAM_QUEUE_LEN, VecDeque::new());
        let (blocked_on, refused, watcher) = (None, false, None);
        state.boxes.insert(at, Mailbox { waiting, room, peer, blocked_on, refused, watcher });
        Ok(DatagramEnd { office: self.clone(), at })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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
        static POST: SocketKind = SocketKind::new("post");
        &POST
    }

    fn open(
        &self,
        local: Option<&Address>,
        peer: Option<&Address>,
        options: &[SocketOption],
    ) -> io::Result<(Io, Address)> {
        if let Some(option) = options.first() {
            let what = format!("a post office has no option {option}");
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
        f.debug_set().entries(self.lock().boxes.keys()).finish()
    }
}

/// Somebody who sends and receives datagrams, and is no channel: the test. Dropped, it is gone.
pub struct DatagramPeer {
    end: DatagramEnd,
}

impl DatagramPeer {
    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.end.at
    }

    /// Sends something to an address. `false`: too many wait there.
    ///
    /// # Errors
    /// It is too long.
    pub fn send(&self, to: SocketAddr, bytes: impl Into<Bytes>) -> io::Result<bool> {
        self.end.send(&Datagram::to(to, bytes))
    }

    /// Takes the next datagram, if one has arrived.
    #[must_use]
    pub fn receive(&self) -> Option<Datagram> {
        self.end.receive(usize::MAX)
    }

    /// So many may wait for it, and whoever sends more waits.
    pub fn set_capacity(&self, room: usize) {
        self.end.office.change(|state, touched| {
            if let Some(own) = state.boxes.get_mut(&self.end.at) {
                own.room = room;
            }
            state.touch_those_blocked_on(self.end.at, touched);
        });
    }
}

impl fmt::Debug for DatagramPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatagramPeer({})", self.end.at)
    }
}

/// The end that a driver is given.
pub(super) struct DatagramEnd {
    office: DatagramNetwork,
    at: SocketAddr,
}

impl DatagramEnd {
    pub(super) fn watch(&self, watcher: Watcher) {
        self.with_own(|own| own.watcher = Some(watcher));
    }

    pub(super) fn has_input(&self) -> bool {
        self.with_own(|own| !own.waiting.is_empty())
    }

    /// The next datagram, cut off after so many bytes.
    pub(super) fn receive(&self, size: usize) -> Option<Datagram> {
        let taken = self.office.change(|state, touched| {
            let taken = state.boxes.get_mut(&self.at)?.waiting.pop_front();
            state.touch_those_blocked_on(self.at, touched);
            taken
        })?;
        let (whole, bytes) =
            (taken.whole_len(), taken.bytes().slice(..size.min(taken.whole_len())));
        Some(Datagram::received(taken.peer().cloned(), bytes, whole))
    }

    /// Sends a datagram; `false`: it has to wait for room.
    pub(super) fn send(&self, datagram: &Datagram) -> io::Result<bool> {
        if datagram.bytes().len() > LONGEST {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the datagram is too long"));
        }
        let peer = self.with_own(|own| own.peer);
        let to = match (datagram.peer(), peer) {
            (Some(to), _) => ip(to)?,
            (None, Some(peer)) => peer,
            (None, None) => {
                let what = "a destination is required: the datagram has no address";
                return Err(io::Error::new(ErrorKind::NotConnected, what));
            }
        };
        Ok(self.office.change(|state, touched| {
            match state.boxes.get_mut(&to) {
                Some(other) if other.peer.is_some_and(|peer| peer != self.at) => {}
                Some(other) if other.waiting.len() >= other.room => {
                    state.own(self.at).blocked_on = Some(to);
                    return false;
                }
                Some(other) => {
                    let bytes = datagram.bytes().clone();
                    let whole = bytes.len();
                    let arrived = Datagram::received(Some(self.at.into()), bytes, whole);
                    other.waiting.push_back(arrived);
                    touched.extend(other.watcher.clone());
                }
                None => {
                    let own = state.own(self.at);
                    own.refused = own.peer == Some(to);
                    touched.extend(own.watcher.clone());
                }
            }
            true
        }))
    }

    /// Whether what had to wait for room may be tried again.
    pub(super) fn may_send(&self) -> bool {
        let mut state = self.office.lock();
        let Some(to) = state.own(self.at).blocked_on else { return true };
        state.boxes.get(&to).is_none_or(|other| other.waiting.len() < other.room)
    }

    pub(super) fn has_error(&self) -> bool {
        self.with_own(|own| own.refused)
    }

    pub(super) fn take_error(&self) -> Option<io::Error> {
        let refused = self.with_own(|own| std::mem::take(&mut own.refused));
        refused.then(|| ErrorKind::ConnectionRefused.into())
    }

    fn with_own<R>(&self, f: impl FnOnce(&mut Mailbox) -> R) -> R {
        f(self.office.lock().own(self.at))
    }
}

impl Drop for DatagramEnd {
    fn drop(&mut self) {
        self.office.change(|state, touched| {
            state.boxes.remove(&self.at);
            state.touch_those_blocked_on(self.at, touched);
        });
    }
}

impl DatagramNetwork {
    /// Changes something, and has those look again whom it concerns.
    fn change<R>(&self, how: impl FnOnce(&mut State, &mut Vec<Watcher>) -> R) -> R {
        let mut touched = Vec::new();
        let result = how(&mut self.lock(), &mut touched);
        touched.iter().for_each(Watcher::touch);
        result
    }
}

impl State {
    /// The box of an end, which is there as long as the end is.
    fn own(&mut self, at: SocketAddr) -> &mut Mailbox {
        self.boxes.get_mut(&at).expect("an end has its box")
    }

    fn touch_those_blocked_on(&self, at: SocketAddr, touched: &mut Vec<Watcher>) {
        let blocked = self.boxes.values().filter(|other| other.blocked_on == Some(at));
        touched.extend(blocked.filter_map(|other| other.watcher.clone()));
    }
}

fn ip(address: &Address) -> io::Result<SocketAddr> {
    match address {
        Address::Ip(address) => Ok(*address),
        other => {
            let what = format!("{other} is no address of a post office");
            Err(io::Error::new(ErrorKind::InvalidInput, what))
        }
    }
}
