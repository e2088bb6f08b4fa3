//! Accept guards: decide on accepted connections before anything is built for them (K10).
//!
//! ```text
//!   accepted ──► guard 1 ── admit ──► guard 2 ── admit ──► connection limit ──► a worker's loop, child initialiser
//!                  │ refuse, or panic   │                    with the permits of the guards as an attribute
//!                  └────────┬───────────┘                        │ closed and handlers removed, or dropped on the way
//!                           ▼                                    ▼
//!                closed at once, counted, reported            permits dropped
//! ```
//!
//! - The guards of a chain are called in order, on the server's loop, with nothing locked or borrowed. The first
//!   refusal decides: later guards are not called, and the permits of earlier ones are dropped.
//! - Handlers of the server's own pipeline come before the guards and see every accepted connection.
//! - A refused connection takes no permit of the [`ConnectionLimit`](crate::ConnectionLimit).
//! - A guard that panics refuses the connection; the panic is reported, and the server goes on.

use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::engine::report;
use waterwheel_executor::{Fault, Nanos, UserCode};

use crate::address::Address;
use crate::base::report_throttle::ReportThrottle;
use crate::channel::handle::attributes::{AttrKey, ChannelCompanion, companion_key};
use crate::channel::handle::new_channel::NewChannel;
use crate::channel::panics::catch_user_panic;
use crate::event_loop::local_loop::LocalLoop;

/// Decides whether a server keeps a connection that it has just accepted.
///
/// Called on the loop that accepted the connection, before a worker's loop is chosen and a pipeline is built. A guard
/// may be called on several loops at once ([`bind_on_each_loop`](crate::ServerBootstrap::bind_on_each_loop), or servers
/// that share it). It must not block. A panic refuses the connection.
///
/// Closures are guards too; stock guards are in `waterwheel-handlers`. A guard that admits ten connections at a time to
/// each local address:
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
/// use waterwheel_channel::{
///     AcceptGuard, AcceptPermit, AcceptVerdict, AcceptedConnection, Address, GuardChain,
/// };
///
/// #[derive(Default)]
/// struct TenEach(Mutex<HashMap<Address, Arc<()>>>);
///
/// impl AcceptGuard for TenEach {
///     fn check(&self, connection: &AcceptedConnection) -> AcceptVerdict {
///         let Some(local) = connection.local_address() else { return AcceptVerdict::Admit };
///         let mut open = self.0.lock().unwrap();
///         let open = open.entry(local.clone()).or_default();
///         match Arc::strong_count(open) {
///             ..=10 => AcceptVerdict::AdmitWith(AcceptPermit::new(open.clone())),
///             _ => AcceptVerdict::Refuse("ten connections are open"),
///         }
///     }
/// }
///
/// let guards = GuardChain::new().add("ten each", TenEach::default());
/// # drop(guards);
/// ```
pub trait AcceptGuard: Send + Sync + 'static {
    /// Returns the verdict on a connection.
    fn check(&self, connection: &AcceptedConnection) -> AcceptVerdict;
}

impl<F: Fn(&AcceptedConnection) -> AcceptVerdict + Send + Sync + 'static> AcceptGuard for F {
    fn check(&self, connection: &AcceptedConnection) -> AcceptVerdict {
        self(connection)
    }
}

/// The verdict of an [`AcceptGuard`].
#[derive(Debug)]
pub enum AcceptVerdict {
    /// The connection is kept, as far as this guard is concerned.
    Admit,
    /// The connection is kept, and holds the permit until it is closed.
    AdmitWith(AcceptPermit),
    /// The connection is closed at once, for this reason: a few fixed words, by which refusals are counted.
    Refuse(&'static str),
}

/// A value that a guard attaches to a connection. It is dropped when the channel is closed and its handlers are
/// removed, even if handles of the channel remain, or when the connection ends before it becomes a channel. The drop
/// may happen on any loop; a panic of the value's destructor is reported and has no other effect.
pub struct AcceptPermit {
    _value: Box<dyn Any + Send + Sync>,
}

impl AcceptPermit {
    /// Creates a permit that drops this value at its end.
    #[must_use]
    pub fn new(value: impl Send + Sync + 'static) -> Self {
        Self { _value: Box::new(value) }
    }
}

impl fmt::Debug for AcceptPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcceptPermit")
    }
}

/// A connection that a server has accepted, as guards see it.
#[derive(Clone, Debug)]
pub struct AcceptedConnection {
    peer: Option<Address>,
    local: Option<Address>,
    now: Nanos,
}

impl AcceptedConnection {
    /// Creates a description of a connection, for tests of a guard.
    #[must_use]
    pub fn new(peer: Option<Address>, local: Option<Address>, now: Nanos) -> Self {
        Self { peer, local, now }
    }

    /// Returns the address of the peer. Clients of Unix sockets are usually [unnamed](crate::UnixAddress::Unnamed),
    /// local ones have no address. Behind a proxy this is the address of the proxy.
    #[must_use]
    pub fn peer_address(&self) -> Option<&Address> {
        self.peer.as_ref()
    }

    /// Returns the peer's IP address; `None` for a peer of another transport. An IPv4-mapped IPv6 address is returned
    /// as the IPv4 address in it.
    #[must_use]
    pub fn peer_ip(&self) -> Option<IpAddr> {
        self.peer.as_ref().and_then(Address::ip).map(|ip| ip.to_canonical())
    }

    /// Returns the local address of the connection, unless asking for it would cost a system call: `None` if the
    /// server listens at a wildcard address.
    #[must_use]
    pub fn local_address(&self) -> Option<&Address> {
        self.local.as_ref()
    }

    /// Returns the time of the accept, on the clock of the server's loop.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }
}

/// Accept guards with their names and the counts of what they refused.
///
/// The chain is built once and passed to [`ServerBootstrap::accept_guards`](crate::ServerBootstrap::accept_guards).
/// This is a handle: clones share the guards and the counts, which any thread may read. Servers that share a chain are
/// counted together.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{
///     AcceptVerdict, AcceptedConnection, Address, Bootstrap, EventLoopGroup, GuardChain, Refusals,
///     ServerBootstrap, local,
/// };
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let guards = GuardChain::new().add("closing time", |_: &AcceptedConnection| {
///     AcceptVerdict::Refuse("after hours")
/// });
/// let server = ServerBootstrap::new(&group, local::Local).accept_guards(&guards);
/// let server = server.bind(Address::local("shop")).join()?;
/// let client = Bootstrap::new(&group, local::Local).connect(Address::local("shop")).join()?;
/// client.closed().join()?;
/// let refusals = Refusals { guard: "closing time", reason: "after hours", count: 1 };
/// assert_eq!(guards.refusals(), [refusals]);
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct GuardChain {
    guards: Vec<Arc<NamedGuard>>,
}

/// How often a guard has refused a connection for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// The name of the guard.
    pub guard: &'static str,
    /// The reason that the guard gave, or [`GuardChain::PANICKED`].
    pub reason: &'static str,
    /// The number of connections.
    pub count: u64,
}

/// A guard of a chain. Every loop that accepts for the chain calls the guard and counts its refusals; the lock is held
/// for a few instructions by such a loop, or by a reader of the counts.
struct NamedGuard {
    name: &'static str,
    guard: Box<dyn AcceptGuard>,
    /// The refusals by reason. Reasons are `'static`, so a peer cannot add to them.
    refused: Mutex<Vec<Refusals>>,
    reports: ReportThrottle,
}

impl GuardChain {
    /// The reason under which the connections are counted that a guard refused by a panic.
    pub const PANICKED: &'static str = "the guard panicked";

    /// Creates a chain without guards, which admits every connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a guard, to be called after the previous ones. The name appears in reports and counts.
    #[must_use]
    pub fn add(mut self, name: &'static str, guard: impl AcceptGuard) -> Self {
        let guard: Box<dyn AcceptGuard> = Box::new(guard);
        let (refused, reports) = (Mutex::default(), ReportThrottle::default());
        self.guards.push(Arc::new(NamedGuard { name, guard, refused, reports }));
        self
    }

    /// Returns the number of connections that the guards have refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refusals().iter().map(|refusals| refusals.count).sum()
    }

    /// Returns the refusals of each guard for each reason so far, in the order of the guards.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusals> {
        self.guards.iter().flat_map(|guard| guard.lock_refused().clone()).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Asks the guards about a connection. Returns it with the permits of the guards, or closes it.
    pub(super) fn admit(&self, here: &LocalLoop, new: NewChannel) -> Option<NewChannel> {
        let connection =
            AcceptedConnection::new(new.peer_address(), new.local_address(), here.now());
        let mut permits = GuardPermits::default();
        for guard in &self.guards {
            match guard.check(&connection) {
                AcceptVerdict::Admit => {}
                AcceptVerdict::AdmitWith(permit) => permits.0.push(permit),
                AcceptVerdict::Refuse(reason) => {
                    // Closed before it is counted: a reader of the counts finds the connection closed.
                    let _ =
                        catch_user_panic(UserCode::Destructor, guard.name, || drop((new, permits)));
                    here.counters().add_refused_connection();
                    guard.record_refusal(reason, &connection);
                    return None;
                }
            }
        }
        match permits.0.is_empty() {
            true => Some(new),
            false => Some(new.attribute(&GUARD_PERMITS, permits)),
        }
    }
}

impl NamedGuard {
    fn check(&self, connection: &AcceptedConnection) -> AcceptVerdict {
        catch_user_panic(UserCode::Callback, self.name, || self.guard.check(connection))
            .unwrap_or(AcceptVerdict::Refuse(GuardChain::PANICKED))
    }

    fn record_refusal(&self, reason: &'static str, connection: &AcceptedConnection) {
        let mut refused = self.lock_refused();
        match refused.iter_mut().find(|refusals| refusals.reason == reason) {
            Some(refusals) => refusals.count += 1,
            None => refused.push(Refusals { guard: self.name, reason, count: 1 }),
        }
        drop(refused);
        if let Some(count) = self.reports.record() {
            let peer = match &connection.peer {
                Some(peer) => format!(" from {peer}"),
                None => String::new(),
            };
            let name = self.name;
            report(Fault::Unhandled(format!(
                "the accept guard {name:?} refused a connection{peer}, which was closed: {reason}; {count} so far"
            )));
        }
    }

    fn lock_refused(&self) -> MutexGuard<'_, Vec<Refusals>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for GuardChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.guards.iter().map(|guard| guard.name)).finish()
    }
}

/// The permits of one connection, in the order of the guards: an attribute of its channel.
#[derive(Default)]
struct GuardPermits(Vec<AcceptPermit>);

static GUARD_PERMITS: AttrKey<GuardPermits> = companion_key("guard permits");

/// The permits are dropped when the channel is closed and its handlers are removed, even if handles of it remain.
impl ChannelCompanion for GuardPermits {}

impl Drop for GuardPermits {
    /// Drops each permit on its own: a destructor that panics does not keep the others.
    fn drop(&mut self) {
        for permit in self.0.drain(..) {
            let _ = catch_user_panic(UserCode::Destructor, "accept permit", || drop(permit));
        }
    }
}
