//! The server bootstrap.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use waterwheel_executor::{Error, PromiseFuture};

use super::accept_guard::GuardChain;
use super::acceptor::{Acceptor, ChildKeyFn, ChildPlacer, WorkerLoops};
use super::channel_template::ChannelTemplate;
use super::connection_limit::ConnectionLimit;
use super::loops::Loops;
use super::opening::{ChannelOpening, run_callback};
use crate::address::{AddressSpec, Resolver};
use crate::channel::handle::Channel;
use crate::channel::handle::attributes::AttrKey;
use crate::channel::handle::new_channel::NewChannel;
use crate::channel::options::ChannelOptions;
use crate::channel::transport::{ServerTransportFactory, Transport, unsupported};
use crate::driver::SocketOption;
use crate::event_loop::handle::EventLoop;
use crate::pipeline::{Edit, In};

/// Creates server channels, and a channel for each connection they accept.
///
/// The server's own channel runs on a loop of the boss group; accepted connections run on the loops of the
/// worker group, each on the next one. Both are the same group unless [`boss`](Self::boss) is called. Methods
/// named `child_…` concern the accepted connections.
///
/// A server keeps its worker group alive, unless that is also its boss group. It does not keep the boss group
/// alive: when the last handle of the boss group is dropped, the server is closed.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{
///     Address, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap, local,
/// };
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
/// let server = ServerBootstrap::new(&group, local::Local)
///     .child_initialiser(|edit| {
///         edit.add_last("echo", Echo)?;
///         Ok(())
///     })
///     .bind(Address::local("echo"))
///     .join()?;
/// assert_eq!(server.local_address(), Some(Address::local("echo")));
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a bootstrap does nothing until bind or listen_on is called"]
pub struct ServerBootstrap {
    boss: Loops,
    pub(super) workers: Loops,
    transports: Arc<dyn ServerTransportFactory>,
    resolver: Option<Arc<dyn Resolver>>,
    pub(super) own: ChannelTemplate,
    pub(super) child: ChannelTemplate,
    guards: GuardChain,
    limit: Option<ConnectionLimit>,
    child_key: Option<Arc<ChildKeyFn>>,
}

impl ServerBootstrap {
    /// Creates a bootstrap for servers of this transport, on the loops of a group or on one given loop: see
    /// [`Bootstrap::new`].
    ///
    /// [`Bootstrap::new`]: crate::Bootstrap::new
    pub fn new(loops: impl Into<Loops>, transports: impl ServerTransportFactory) -> Self {
        let loops = loops.into();
        Self {
            boss: loops.clone(),
            workers: loops,
            resolver: transports.resolver(),
            transports: Arc::new(transports),
            own: ChannelTemplate::default(),
            child: ChannelTemplate::default(),
            guards: GuardChain::default(),
            limit: None,
            child_key: None,
        }
    }

    /// Sets the group or the loop that accepts connections. Default: the group or the loop of the connections.
    pub fn boss(mut self, boss: impl Into<Loops>) -> Self {
        self.boss = boss.into();
        self
    }

    /// Sets the initialiser of the server's own pipeline. The server reads [`NewChannel`]s; the last handler,
    /// after the handlers added here, registers them.
    pub fn initialiser(
        mut self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.own.initialise_by(initialiser);
        self
    }

    /// Sets the initialiser of each connection's pipeline, which is called on the connection's loop. If it
    /// fails, the connection is closed and the failure is reported.
    pub fn child_initialiser(
        mut self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.child.initialise_by(initialiser);
        self
    }

    /// Adds an initialiser of each connection's pipeline, which is called after the present one, in the same edit.
    pub fn extend_child_initialiser(
        mut self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.child.then_initialise_by(initialiser);
        self
    }

    /// Sets the options of the server.
    pub fn options(mut self, options: impl Into<Arc<ChannelOptions>>) -> Self {
        self.own.options = options.into();
        self
    }

    /// Sets the options of each connection.
    pub fn child_options(mut self, options: impl Into<Arc<ChannelOptions>>) -> Self {
        self.child.options = options.into();
        self
    }

    /// Sets an option of the server's socket. The bind fails if the transport does not support it.
    pub fn socket_option(mut self, option: SocketOption) -> Self {
        self.own.socket_options.push(option);
        self
    }

    /// Sets an option of each connection's socket. The bind fails if the transport does not support it.
    pub fn child_socket_option(mut self, option: SocketOption) -> Self {
        self.child.socket_options.push(option);
        self
    }

    /// Sets an attribute of the server.
    pub fn attribute<T: Send + Sync + 'static>(self, key: &AttrKey<T>, value: T) -> Self {
        self.own.attributes.set(key, value);
        self
    }

    /// Sets an attribute of each connection; they share the value.
    pub fn child_attribute<T: Send + Sync + 'static>(self, key: &AttrKey<T>, value: T) -> Self {
        self.child.attributes.set(key, value);
        self
    }

    /// Sets the key of a connection, by which the group's chooser picks its loop; a
    /// [`ByKey`](waterwheel_executor::ByKey) chooser always picks the same loop for a key. So the connections
    /// of one client, or of one chat room, share a loop and its state. The function is called on the server's loop;
    /// a panic is reported, and the connection is registered with the next loop.
    ///
    /// ```
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{Address, EventLoopGroup, ServerBootstrap, local};
    /// use waterwheel_executor::ByKey;
    ///
    /// let group = EventLoopGroup::builder(TaskOnly).threads(4).chooser(ByKey::default()).build()?;
    /// let server = ServerBootstrap::new(&group, local::Local).child_key(|accepted| match accepted.peer_address() {
    ///     Some(Address::Ip(peer)) => Some(peer.ip()),
    ///     _ => None,
    /// });
    /// # drop(server);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn child_key<K: Hash>(
        mut self,
        key: impl Fn(&NewChannel) -> K + Send + Sync + 'static,
    ) -> Self {
        self.child_key = Some(Arc::new(move |accepted: &NewChannel, workers: &Loops| {
            workers.next_for(&key(accepted))
        }));
        self
    }

    /// Sets the guards that decide on each accepted connection, before the connection limit, the choice of a loop and
    /// the child initialiser: see [`AcceptGuard`](crate::AcceptGuard). Replaces a chain that was set before.
    pub fn accept_guards(mut self, guards: &GuardChain) -> Self {
        self.guards = guards.clone();
        self
    }

    /// Limits the open connections of all servers of this bootstrap together: see [`ConnectionLimit`].
    pub fn max_connections(self, max: usize) -> Self {
        self.connection_limit(&ConnectionLimit::new(max))
    }

    /// Sets a limit for open connections that can be read, changed, and shared with other bootstraps.
    pub fn connection_limit(mut self, limit: &ConnectionLimit) -> Self {
        self.limit = Some(limit.clone());
        self
    }

    /// Sets the resolver for names, instead of the transport's own.
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Binds a new server. A name is bound at the first of its addresses. The future returns the server's
    /// channel when it accepts connections; closing that channel ends the server, and its connections stay
    /// open.
    #[track_caller]
    pub fn bind(&self, to: impl Into<AddressSpec>) -> PromiseFuture<Channel> {
        let made = run_callback("transport", || {
            let new = self.new_channel_over(self.transports.server(), self.workers_of_server())?;
            Ok::<(AddressSpec, _), Error>((to.into(), new))
        });
        match made.flatten().and_then(|(to, new)| Ok((to, self.boss.assign_loop(new)?))) {
            Ok((to, (at, new))) => self.open(new, &at, to),
            Err(error) => self.boss.failed(error),
        }
    }

    /// Serves on an existing listening socket, which was inherited or opened elsewhere. The future returns the
    /// server's channel when it accepts connections. The socket options of this bootstrap are set on the socket; all
    /// other options of the socket stay the same.
    #[track_caller]
    pub fn listen_on(&self, listener: impl Transport) -> PromiseFuture<Channel> {
        if !listener.is_listening() {
            return self.boss.failed(unsupported(listener.name(), "accept connections"));
        }
        let made = run_callback("transport", || {
            self.new_channel_over(Box::new(listener), self.workers_of_server())
        });
        match made.flatten().and_then(|new| self.boss.assign_loop(new)) {
            Ok((at, new)) => ChannelOpening::open_existing(new, &at),
            Err(error) => self.boss.failed(error),
        }
    }

    /// Binds a new server on this loop, which also gets its connections.
    #[track_caller]
    pub(super) fn open_on(&self, at: &EventLoop, to: AddressSpec) -> PromiseFuture<Channel> {
        let make = || self.new_channel_over(self.transports.server(), WorkerLoops::Accepting);
        match run_callback("transport", make).flatten() {
            Ok(new) => self.open(new, at, to),
            Err(error) => at.failed(error),
        }
    }

    #[track_caller]
    fn open(&self, new: NewChannel, at: &EventLoop, to: AddressSpec) -> PromiseFuture<Channel> {
        let opening = ChannelOpening {
            new,
            limit: self.own.options.connect_timeout,
            operation: Box::new(|pipeline, mut addresses, done| {
                // `addresses` is never empty.
                pipeline.bind_with(addresses.swap_remove(0), done);
            }),
        };
        opening.open(at, to, self.resolver.clone())
    }

    fn new_channel_over(
        &self,
        mut transport: Box<dyn Transport>,
        workers: WorkerLoops,
    ) -> Result<NewChannel, Error> {
        for option in &self.own.socket_options {
            transport.set_option(None, *option)?;
        }
        for option in &self.child.socket_options {
            transport.set_child_option(*option)?;
        }
        let (guards, limit) = (self.guards.clone(), self.limit.clone());
        let children = Arc::new(ChildPlacer::new(workers, self.child.clone(), guards, limit));
        let own = self.own.clone();
        let new = self.own.apply(NewChannel::with_transport(transport)).initialiser(move |edit| {
            own.initialise(edit)?;
            edit.add_last("acceptor", In(Acceptor::new(children)))?;
            Ok(())
        });
        Ok(new)
    }

    /// Returns the worker loops of a server. The server keeps its worker group alive, unless it is also the boss group.
    fn workers_of_server(&self) -> WorkerLoops {
        let own = self.workers == self.boss;
        if own && self.workers.is_single_loop() {
            return WorkerLoops::Accepting;
        }
        let workers = if own { self.workers.without_lease() } else { self.workers.clone() };
        WorkerLoops::Of(workers, self.child_key.clone())
    }
}

impl fmt::Debug for ServerBootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBootstrap")
            .field("boss", &self.boss)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
