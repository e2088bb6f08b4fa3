//! Embedded channels that are connected with each other or with a test.

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
use super::wire::{BacklogOutcome, Wire};

/// Creates two connected channels: each reads the bytes that the other writes, as a stream. Both may be on the same
/// loop or on two loops, over any driver.
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
/// assert!(!greeter.is_open(), "closing one end closes the other");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn connected_pair() -> (NewChannel, NewChannel) {
    let (one, other) = (Wire::bounded(), Wire::bounded());
    let first = WireTransport::connected(one.clone(), other.clone());
    (NewChannel::new(first), NewChannel::new(WireTransport::connected(other, one)))
}

/// A network in memory that provides bootstraps with servers and clients, over any driver. A client that connects to
/// the [`Address::local`] of a server is connected with a new channel of that server. Clones are the same network;
/// separate networks do not see each other's servers, so tests need not agree on names.
///
/// - Connections are streams: bytes and files are written, bytes are read, in order.
/// - A peer that does not read blocks its writer after 64 KiB.
/// - An end that is closed, dropped or never accepted closes the other end, which first reads the rest. Writing to
///   a closed end fails with `BrokenPipe`.
/// - A connect fails if no server has the name. While as many channels wait to be accepted as the server's
///   [`Backlog`](waterwheel_channel::driver::SocketOption::Backlog) allows, the connect is retried
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
/// let network = EmbeddedNetwork::new();
/// let server = ServerBootstrap::new(&group, network.clone())
///     .child_initialiser(|edit| Ok(edit.add_last("echo", Echo).map(drop)?))
///     .bind(Address::local("echo"))
///     .join()?;
/// let client = Bootstrap::new(&group, network).connect(Address::local("echo")).join()?;
/// assert_eq!(client.peer_address(), server.local_address());
/// client.write_and_flush(Bytes::from_static(b"hello")).join()?;
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct EmbeddedNetwork {
    /// Servers by name. Locked by the loops of servers and clients and by the test; no other lock is taken
    /// meanwhile.
    servers: Arc<Mutex<BTreeMap<Arc<str>, ServerEntry>>>,
}

#[derive(Clone)]
struct ServerEntry {
    wire: Wire,
    backlog: usize,
}

impl EmbeddedNetwork {
    /// Creates a network without servers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects the test to a server; the server accepts a channel whose other end is the returned peer.
    ///
    /// # Errors
    /// No server has this address, or its backlog is full.
    pub fn connect_peer(&self, at: &Address) -> Result<EmbeddedPeer, Error> {
        let (wire, name) = (Wire::default(), name_of(at)?);
        let server = self.server(&name)?;
        let accepted = || WireTransport::to_test(wire.clone()).addresses(at.clone(), None);
        match server.wire.offer(server.backlog, || NewChannel::new(accepted())) {
            BacklogOutcome::Queued => Ok(EmbeddedPeer { wire }),
            BacklogOutcome::BacklogFull => {
                Err(LocalError::BacklogFull { name, backlog: server.backlog }.into())
            }
            BacklogOutcome::Closed => Err(LocalError::Refused { name }.into()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, ServerEntry>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self, name: &Arc<str>) -> Result<ServerEntry, LocalError> {
        let found = self.lock().get(name).cloned();
        found.ok_or_else(|| LocalError::Refused { name: name.clone() })
    }

    /// Queues the server's end of a connecting channel to be accepted. Returns `false` if the backlog is full.
    pub(super) fn connect(
        &self,
        to: &ConnectTarget,
        accepted: impl FnOnce() -> WireTransport,
    ) -> Result<bool, LocalError> {
        let name = name_of(&to.remote)?;
        let server = self.server(&name)?;
        let (local, peer) = (to.remote.clone(), to.local.clone());
        let new = || NewChannel::new(accepted().addresses(local, peer));
        match server.wire.offer(server.backlog, new) {
            BacklogOutcome::Queued => Ok(true),
            BacklogOutcome::BacklogFull => Ok(false),
            BacklogOutcome::Closed => Err(LocalError::Refused { name }),
        }
    }

    /// Registers a server under this name.
    pub(super) fn insert(
        &self,
        name: &Arc<str>,
        wire: &Wire,
        backlog: usize,
    ) -> Result<(), LocalError> {
        let server = ServerEntry { wire: wire.clone(), backlog };
        let mut servers = self.lock();
        if servers.contains_key(name) {
            return Err(LocalError::NameInUse { name: name.clone() });
        }
        servers.insert(name.clone(), server);
        Ok(())
    }

    /// Removes the server of this name.
    pub(super) fn remove(&self, name: &Arc<str>) {
        let removed = self.lock().remove(name);
        drop(removed);
    }
}

/// Returns the name in a local address.
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

/// The test's end of a connection with a server of an [`EmbeddedNetwork`]. May be used from any thread. Dropping it
/// closes the connection.
pub struct EmbeddedPeer {
    wire: Wire,
}

impl EmbeddedPeer {
    /// Sends bytes to the channel. There is always room.
    pub fn send(&self, bytes: impl Into<Bytes>) {
        self.wire.send([bytes.into().into()]);
        self.wire.wake();
    }

    /// Ends the sending direction (half-close); receiving continues.
    pub fn finish(&self) {
        self.wire.finish();
        self.wire.wake();
    }

    /// Fails the connection: the channel is closed with this error.
    pub fn fail(&self, error: Error) {
        self.wire.fail(error);
        self.wire.wake();
    }

    /// Takes the next chunk that the channel has sent, if there is one.
    #[must_use]
    pub fn receive(&self) -> Option<Bytes> {
        self.wire.take_outbound().and_then(|msg| msg.into_bytes().ok())
    }

    /// True if the channel has ended its output or is closed. Bytes sent before may still be received.
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
