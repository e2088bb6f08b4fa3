//! A limit for the open connections of servers.
//!
//! ```text
//!   accepted ──► below the limit? ── yes ──► a worker's loop, with a `ConnectionPermit` as an attribute
//!                  │ no                        │ closed, or dropped on the way
//!                  ▼                           ▼
//!                waits; the server           permit dropped ──► every waiting server accepts again
//!                stops accepting
//! ```

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::acceptor::ChildPlacer;
use crate::channel::handle::Channel;
use crate::channel::handle::attributes::{AttrKey, ChannelCompanion, companion_key};
use crate::event_loop::command::LoopCommand;

/// The maximum number of open connections, of one server or of several that share the limit.
///
/// This is a handle: cheap to clone, usable from any thread, and passed to
/// [`ServerBootstrap::connection_limit`](crate::ServerBootstrap::connection_limit). A connection counts from
/// its accept until it is closed and its handlers are removed.
///
/// At the limit the servers stop accepting: new clients wait in the kernel's backlog until a connection is
/// closed. Each server that shares the limit may have accepted one more connection, which waits in the server.
/// With [`turn_away`](Self::turn_away) new connections are accepted and closed at once instead: clients fail
/// fast, and a load balancer can choose another server.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{
///     Address, Bootstrap, ConnectionLimit, EventLoopGroup, ServerBootstrap, local,
/// };
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let limit = ConnectionLimit::new(1).turn_away();
/// let server = ServerBootstrap::new(&group, local::Local).connection_limit(&limit);
/// let server = server.bind(Address::local("for one")).join()?;
/// let clients = Bootstrap::new(&group, local::Local);
/// let (one, other) = (clients.connect(Address::local("for one")), clients.connect(Address::local("for one")));
/// let (_one, other) = (one.join()?, other.join()?);
/// other.closed().join()?;
/// assert_eq!((limit.open(), limit.turned_away()), (1, 1));
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ConnectionLimit {
    shared: Arc<LimitShared>,
}

/// The state that all servers with this limit and all their connections share. The lock is held for a few
/// instructions, by a loop that accepts or closes a connection or by a user of the handle.
struct LimitShared {
    state: Mutex<LimitState>,
    turned_away: AtomicU64,
}

struct LimitState {
    max: usize,
    open: usize,
    turns_away: bool,
    /// Servers that stopped accepting at the limit.
    waiting: Vec<WaitingServer>,
}

struct WaitingServer {
    server: Channel,
    children: Arc<ChildPlacer>,
}

impl ConnectionLimit {
    /// Creates a limit of `max` open connections. With a limit of zero no connection is served.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let state = LimitState { max, open: 0, turns_away: false, waiting: Vec::new() };
        let (state, turned_away) = (Mutex::new(state), AtomicU64::new(0));
        Self { shared: Arc::new(LimitShared { state, turned_away }) }
    }

    /// Closes new connections at the limit at once, instead of letting them wait.
    #[must_use]
    pub fn turn_away(self) -> Self {
        let mut state = self.shared.lock();
        state.turns_away = true;
        let waiting = state.take_waiting();
        drop(state);
        admit(waiting);
        self
    }

    /// Returns the maximum.
    #[must_use]
    pub fn max(&self) -> usize {
        self.shared.lock().max
    }

    /// Changes the maximum. Open connections stay open.
    pub fn set_max(&self, max: usize) {
        let mut state = self.shared.lock();
        state.max = max;
        let waiting = state.take_waiting();
        drop(state);
        admit(waiting);
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.lock().open
    }

    /// Returns the number of connections that were closed because of the limit.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.shared.turned_away.load(Ordering::Relaxed)
    }

    /// Counts one more connection, until the returned permit is dropped.
    pub(super) fn try_admit(&self) -> Result<ConnectionPermit, LimitReached> {
        let mut state = self.shared.lock();
        if state.has_room() {
            state.open += 1;
            return Ok(ConnectionPermit(self.shared.clone()));
        }
        if !state.turns_away {
            return Err(LimitReached::Wait);
        }
        self.shared.turned_away.fetch_add(1, Ordering::Relaxed);
        Err(LimitReached::TurnAway)
    }

    /// Returns true if a server may accept. Otherwise the server is woken once accepting is possible again.
    pub(super) fn may_accept(&self, server: &Channel, children: &Arc<ChildPlacer>) -> bool {
        let mut state = self.shared.lock();
        let may = state.may_accept();
        if !may && !state.waiting.iter().any(|waiting| waiting.server == *server) {
            let (server, children) = (server.clone(), children.clone());
            state.waiting.push(WaitingServer { server, children });
        }
        may
    }

    /// Removes a server that has ended.
    pub(super) fn remove_server(&self, children: &Arc<ChildPlacer>) {
        let is_its = |waiting: &WaitingServer| Arc::ptr_eq(&waiting.children, children);
        let mut state = self.shared.lock();
        let at = state.waiting.iter().position(is_its);
        let forgotten = at.map(|at| state.waiting.swap_remove(at));
        drop(state);
        drop(forgotten);
    }
}

/// The treatment of a connection at the limit.
pub(super) enum LimitReached {
    Wait,
    TurnAway,
}

impl LimitState {
    fn has_room(&self) -> bool {
        self.open < self.max
    }

    /// True if servers accept connections, even if only to close them.
    fn may_accept(&self) -> bool {
        self.has_room() || self.turns_away
    }

    /// Returns the waiting servers if they may accept: all of them, because it is unknown which of them has
    /// clients in its backlog.
    fn take_waiting(&mut self) -> Vec<WaitingServer> {
        match self.may_accept() {
            true => std::mem::take(&mut self.waiting),
            false => Vec::new(),
        }
    }
}

impl LimitShared {
    fn lock(&self) -> MutexGuard<'_, LimitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn admit(waiting: Vec<WaitingServer>) {
    for WaitingServer { server, children } in waiting {
        let token = server.token();
        let admit = LoopCommand::new(move |here| {
            here.channels().with(token, |core| children.admit_waiting(core));
        });
        // A loop that has ended rejects the command: the server has ended too.
        let _ = server.sender().send(admit);
    }
}

/// The permit of one connection. An attribute of its channel until the channel is closed; dropped with the
/// attributes if the connection never becomes a channel.
pub(super) struct ConnectionPermit(Arc<LimitShared>);

pub(super) static CONNECTION_PERMIT: AttrKey<ConnectionPermit> = companion_key("admitted");

/// The permit is dropped when the channel is closed and its handlers are removed, even if handles of it remain.
impl ChannelCompanion for ConnectionPermit {}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        let waiting = state.take_waiting();
        drop(state);
        admit(waiting);
    }
}

impl fmt::Debug for ConnectionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionLimit({} of {})", self.open(), self.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::TaskOnly;
    use crate::{Address, Bootstrap, EventLoopGroup, ServerBootstrap, local};

    #[test]
    fn c12_waiting_connections_are_closed_once_turn_away_is_set() {
        let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
        let limit = ConnectionLimit::new(0);
        let server = ServerBootstrap::new(&group, local::Local).connection_limit(&limit);
        let server = server.bind(Address::local("for nobody")).join().unwrap();
        let client = Bootstrap::new(&group, local::Local).connect(Address::local("for nobody"));
        let client = client.join().unwrap();
        while limit.shared.lock().waiting.is_empty() {
            server.with_pipeline(|_| ()).join().unwrap();
        }
        let _turns_away = limit.clone().turn_away();
        client.closed().wait_timeout(std::time::Duration::from_secs(20)).unwrap();
        assert_eq!((limit.open(), limit.turned_away()), (0, 1));
    }
}
