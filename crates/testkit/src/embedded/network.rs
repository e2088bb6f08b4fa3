//! Embedded channels that are joined with each other, or plugged into from a test.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use waterwheel_channel::local::LocalError;
use waterwheel_channel::transport::{ServerTransportFactory, Transport, TransportFactory};
use waterwheel_channel::{Address, ConnectTarget, NewChannel};
use waterwheel_executor::Error;

use super::server_transport::ServerTransport;
use super::stream_transport::WireTransport;
use super::wire::{OfferOutcome, Wire};

/// Two channels that are joined: what one writes, the other reads, as streams of bytes. They may be on the
/// same loop or on two, over any driver.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use waterwheel_channel::{Ctx, EventLoopGroup, Handler, HandlerResult, Msg};
/// use waterwheel_testkit::embedded;
/// use waterwheel_testkit::manual::Manual;
///
/// struct Greet;
///
/// impl Handler for Greet {
///     fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
///         ctx.write_and_flush(Bytes::from_static(b"hello"));
///         Ok(())
///     }
/// }
///
/// struct CloseWhenGreeted;
///
/// impl Handler for CloseWhenGreeted {
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         assert_eq!(msg.into_bytes().unwrap(), "hello");
///         ctx.close();
///         Ok(())
///     }
/// }
///
/// // Both on one loop, which the test turns itself.
/// let mut event_loop = EventLoopGroup::builder(Manual::readiness()).build_manual()?;
/// let (one, other) = embedded::connected_pair();
/// let registered = event_loop.on_loop(|here| {
///     let greeter = here.register_with(one, |edit| Ok(edit.add_last("greet", Greet).map(drop)?))?;
///     here.register_with(other, |edit| Ok(edit.add_last("close", CloseWhenGreeted).map(drop)?))?;
///     Ok::<_, waterwheel_executor::Error>(greeter)
/// });
/// let greeter = registered.unwrap()?;
/// while !event_loop.is_idle() {
///     event_loop.turn(Some(Duration::ZERO));
/// }
/// assert!(!greeter.is_open(), "the other end is closed, and so is this");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn connected_pair() -> (NewChannel, NewChannel) {
    let (one, other) = (Wire::bounded(), Wire::bounded());
    let first = WireTransport::joined(one.clone(), other.clone());
    (NewChannel::new(first), NewChannel::new(WireTransport::joined(other, one)))
}

/// Servers and clients for bootstraps, over any driver and without a network: who connects to the
/// [`Address::local`] of a server is joined with a channel of it. Clones are the same; two that were made
/// apart know nothing of each other's servers, so that tests need not agree about names.
///
/// - They are streams: bytes and files go in, bytes come out, in order and to the end.
/// - A peer that does not read holds its writer back, after 64 KiB.
/// - An end that is closed, dropped or never accepted closes the other one, which reads what is left
///   first. Writing to one that is gone fails as a broken pipe.
/// - Where nobody listens a connect fails. While as many wait to be accepted as the server's
///   [`Backlog`](waterwheel_channel::driver::SocketOption::Backlog) allows, it is tried again and again,
///   within its time limit. There are no other options.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{
///     Address, Bootstrap, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap,
/// };
/// use waterwheel_testkit::embedded::EmbeddedNetwork;
///
/// struct Echo;
///
/// impl Handler for Echo {
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         ctx.write_and_flush(msg);
///         Ok(())
///     }
/// }
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(2).build()?;
/// let wires = EmbeddedNetwork::new();
/// let server = ServerBootstrap::new(&group, wires.clone())
///     .child_initialiser(|edit| Ok(edit.add_last("echo", Echo).map(drop)?))
///     .bind(Address::local("echo"))
///     .join()?;
/// let client = Bootstrap::new(&group, wires).connect(Address::local("echo")).join()?;
/// assert_eq!(client.peer_address(), server.local_address());
/// client.write_and_flush(Bytes::from_static(b"hello")).join()?;
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct EmbeddedNetwork {
    /// Who listens. Touched by the loops of servers and clients, and by the test; no other lock is taken
    /// meanwhile.
    servers: Arc<Mutex<BTreeMap<Arc<str>, Server>>>,
}

#[derive(Clone)]
struct Server {
    wire: Wire,
    backlog: usize,
}

impl EmbeddedNetwork {
    /// Without servers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects the test itself to a server: the other end of the channel that is accepted.
    ///
    /// # Errors
    /// Nobody listens there, or its backlog is full.
    pub fn connect_peer(&self, at: &Address) -> Result<EmbeddedPeer, Error> {
        let (wire, name) = (Wire::default(), name_of(at)?);
        let server = self.server(&name)?;
        let accepted = || WireTransport::plugged(wire.clone()).addresses(at.clone(), None);
        match server.wire.offer(server.backlog, || NewChannel::new(accepted())) {
            OfferOutcome::Queued => Ok(EmbeddedPeer { wire }),
            OfferOutcome::BacklogFull => {
                Err(LocalError::BacklogFull { name, backlog: server.backlog }.into())
            }
            OfferOutcome::Closed => Err(LocalError::Refused { name }.into()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self, name: &Arc<str>) -> Result<Server, LocalError> {
        let found = self.lock().get(name).cloned();
        found.ok_or_else(|| LocalError::Refused { name: name.clone() })
    }

    /// Lets the other end of a channel that connects wait to be accepted, if there is room for it.
    pub(super) fn enter(
        &self,
        to: &ConnectTarget,
        accepted: impl FnOnce() -> WireTransport,
    ) -> Result<bool, LocalError> {
        let name = name_of(&to.remote)?;
        let server = self.server(&name)?;
        let (local, peer) = (to.remote.clone(), to.local.clone());
        let new = || NewChannel::new(accepted().addresses(local, peer));
        match server.wire.offer(server.backlog, new) {
            OfferOutcome::Queued => Ok(true),
            OfferOutcome::BacklogFull => Ok(false),
            OfferOutcome::Closed => Err(LocalError::Refused { name }),
        }
    }

    /// A server has this name from now on.
    pub(super) fn insert(
        &self,
        name: &Arc<str>,
        wire: &Wire,
        backlog: usize,
    ) -> Result<(), LocalError> {
        let server = Server { wire: wire.clone(), backlog };
        let mut servers = self.lock();
        if servers.contains_key(name) {
            return Err(LocalError::NameInUse { name: name.clone() });
        }
        servers.insert(name.clone(), server);
        Ok(())
    }

    /// The server of this name is closed.
    pub(super) fn remove(&self, name: &Arc<str>) {
        let removed = self.lock().remove(name);
        drop(removed);
    }
}

/// The name that an address stands for.
pub(super) fn name_of(address: &Address) -> Result<Arc<str>, LocalError> {
    match address {
        Address::Local(name) => Ok(name.clone()),
        other => Err(LocalError::NotLocal { address: other.clone() }),
    }
}

impl TransportFactory for EmbeddedNetwork {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(WireTransport::client(self.clone()))
    }
}

impl ServerTransportFactory for EmbeddedNetwork {
    fn server(&self) -> Box<dyn Transport> {
        Box::new(ServerTransport::new(self.clone()))
    }
}

impl fmt::Debug for EmbeddedNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

/// The test's end of a connection with a server among [`EmbeddedNetwork`]. May be used from any thread. Dropping it
/// closes it.
pub struct EmbeddedPeer {
    wire: Wire,
}

impl EmbeddedPeer {
    /// Sends something to the channel. There is always room.
    pub fn send(&self, bytes: impl Into<Bytes>) {
        self.wire.send([bytes.into().into()]);
        self.wire.wake();
    }

    /// Sends no more, and goes on receiving.
    pub fn finish(&self) {
        self.wire.finish();
        self.wire.wake();
    }

    /// The connection fails: the channel is closed for this reason.
    pub fn fail(&self, error: Error) {
        self.wire.fail(error);
        self.wire.wake();
    }

    /// Takes the next piece that the channel has sent, if there is one.
    #[must_use]
    pub fn receive(&self) -> Option<Bytes> {
        self.wire.take_outbound().and_then(|msg| msg.into_bytes().ok())
    }

    /// Whether the channel sends no more. What it has sent before may still be there to be received.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.wire.is_ended()
    }
}

impl Drop for EmbeddedPeer {
    fn drop(&mut self) {
        self.wire.lose_peer();
    }
}

impl fmt::Debug for EmbeddedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedPeer").field("is_ended", &self.is_ended()).finish_non_exhaustive()
    }
}
