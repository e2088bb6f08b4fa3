//! The client bootstrap.

use std::fmt;
use std::sync::Arc;

use waterwheel_executor::{Error, PromiseFuture};

use super::channel_template::ChannelTemplate;
use super::loops::Loops;
use super::opening::{ChannelOpening, run_callback};
use crate::address::{Address, AddressSpec, ConnectTarget, Resolver};
use crate::channel::handle::Channel;
use crate::channel::handle::attributes::AttrKey;
use crate::channel::handle::new_channel::NewChannel;
use crate::channel::options::ChannelOptions;
use crate::channel::transport::{Transport, TransportFactory, unsupported};
use crate::driver::SocketOption;
use crate::pipeline::{Completion, Edit, Pipeline};

/// Creates client channels, each on the next loop of a group, or all on one given loop.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{Address, Bootstrap, EventLoopGroup, Handler, ServerBootstrap, local};
///
/// struct Pass;
///
/// impl Handler for Pass {}
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let server = ServerBootstrap::new(&group, local::Local).bind(Address::local("door")).join()?;
/// let clients = Bootstrap::new(&group, local::Local).initialiser(|edit| {
///     edit.add_last("pass", Pass)?;
///     Ok(())
/// });
/// let (one, other) = (clients.connect(Address::local("door")), clients.connect(Address::local("door")));
/// assert_ne!(one.join()?, other.join()?);
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a bootstrap does nothing until connect, bind or adopt is called"]
pub struct Bootstrap {
    loops: Loops,
    transports: Arc<dyn TransportFactory>,
    resolver: Option<Arc<dyn Resolver>>,
    local: Option<Address>,
    pub(super) template: ChannelTemplate,
}

impl Bootstrap {
    /// Creates a bootstrap for channels of this transport, on the loops of a group or on one given loop, for
    /// instance the caller's or a manually driven one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{Address, Bootstrap, EventLoopGroup, ServerBootstrap, local};
    ///
    /// let mut by_hand = EventLoopGroup::builder(TaskOnly).build_manual()?;
    /// let server = ServerBootstrap::new(&by_hand, local::Local).bind(Address::local("here"));
    /// let client = Bootstrap::new(&by_hand.event_loop(), local::Local)
    ///     .auto_read(false)
    ///     .connect_timeout(Duration::from_secs(5))
    ///     .connect(Address::local("here"));
    /// while !(server.is_done() && client.is_done()) {
    ///     by_hand.turn(None);
    /// }
    /// assert_eq!(client.join()?.event_loop(), by_hand.event_loop());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(loops: impl Into<Loops>, transports: impl TransportFactory) -> Self {
        Self {
            loops: loops.into(),
            resolver: transports.resolver(),
            transports: Arc::new(transports),
            local: None,
            template: ChannelTemplate::default(),
        }
    }

    /// Replaces the loops of this bootstrap; all other settings stay. A clone whose loops are one given loop connects
    /// there, for callers that want a channel on their own loop.
    ///
    /// ```
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{Address, Bootstrap, EventLoopGroup, ServerBootstrap, local};
    ///
    /// let group = EventLoopGroup::builder(TaskOnly).threads(2).build()?;
    /// let server = ServerBootstrap::new(&group, local::Local).bind(Address::local("anywhere")).join()?;
    /// let clients = Bootstrap::new(&group, local::Local);
    /// for at in clients.loops().all() {
    ///     let client = clients.clone().on_loops(&at).connect(Address::local("anywhere")).join()?;
    ///     assert_eq!(client.event_loop(), at);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_loops(mut self, loops: impl Into<Loops>) -> Self {
        self.loops = loops.into();
        self
    }

    /// Returns the loops that the channels run on.
    #[must_use]
    pub fn loops(&self) -> &Loops {
        &self.loops
    }

    /// Sets the initialiser of each pipeline, which is called on the channel's loop. If it fails, the channel
    /// is closed and the future fails.
    pub fn initialiser(
        mut self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.template.initialise_by(initialiser);
        self
    }

    /// Adds an initialiser of each pipeline, which is called after the present one, in the same edit.
    pub fn extend_initialiser(
        mut self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.template.then_initialise_by(initialiser);
        self
    }

    /// Sets the options of each channel.
    pub fn options(mut self, options: impl Into<Arc<ChannelOptions>>) -> Self {
        self.template.options = options.into();
        self
    }

    /// Sets an option of each socket. The connect fails if the transport does not support it.
    pub fn socket_option(mut self, option: SocketOption) -> Self {
        self.template.socket_options.push(option);
        self
    }

    /// Sets an attribute of each channel; they share the value.
    pub fn attribute<T: Send + Sync + 'static>(self, key: &AttrKey<T>, value: T) -> Self {
        self.template.attributes.set(key, value);
        self
    }

    /// Sets the local address to connect from.
    pub fn local_address(mut self, local: impl Into<Address>) -> Self {
        self.local = Some(local.into());
        self
    }

    /// Sets the resolver for names, instead of the transport's own.
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Connects a new channel. All addresses of a name are tried, one after the other, within the
    /// [`connect_timeout`](ChannelOptions::connect_timeout); resolving the name has a separate limit of the same
    /// length. The future returns the channel when it is connected; cancelling the future gives up the attempt.
    #[track_caller]
    pub fn connect(&self, to: impl Into<AddressSpec>) -> PromiseFuture<Channel> {
        let local = self.local.clone();
        self.open(to, move |pipeline, addresses, done| {
            let mut addresses = addresses.into_iter();
            // `addresses` is never empty.
            let Some(remote) = addresses.next() else { return };
            let target = ConnectTarget { remote, others: addresses.collect(), local };
            pipeline.connect_with(target, done);
        })
    }

    /// Binds a new channel that needs no connection, such as [datagrams](crate::Datagrams). A name is bound at
    /// the first of its addresses. The future returns the channel when it is bound.
    #[track_caller]
    pub fn bind(&self, to: impl Into<AddressSpec>) -> PromiseFuture<Channel> {
        self.open(to, |pipeline, mut addresses, done| {
            // `addresses` is never empty.
            pipeline.bind_with(addresses.swap_remove(0), done);
        })
    }

    /// Creates a channel from an existing connection, which was inherited or opened elsewhere. The future
    /// returns the channel when it is active. The socket options of this bootstrap are set on the socket; all other
    /// options of the socket stay the same.
    #[track_caller]
    pub fn adopt(&self, connection: impl Transport) -> PromiseFuture<Channel> {
        if connection.is_listening() {
            let error = unsupported(connection.name(), "be a connection: it accepts them");
            return self.loops.failed(error);
        }
        let new =
            run_callback("transport", || self.new_channel_over(Box::new(connection))).flatten();
        match new.and_then(|new| self.loops.assign_loop(new)) {
            Ok((at, new)) => ChannelOpening::open_existing(new, &at),
            Err(error) => self.loops.failed(error),
        }
    }

    #[track_caller]
    fn open(
        &self,
        to: impl Into<AddressSpec>,
        operation: impl FnOnce(Pipeline<'_>, Vec<Address>, Completion) + Send + 'static,
    ) -> PromiseFuture<Channel> {
        let made = run_callback("transport", || {
            let new = self.new_channel_over(self.transports.client())?;
            Ok::<(AddressSpec, _), Error>((to.into(), new))
        });
        let placed = made.flatten().and_then(|(to, new)| Ok((to, self.loops.assign_loop(new)?)));
        let (place, (at, new)) = match placed {
            Ok(placed) => placed,
            Err(error) => return self.loops.failed(error),
        };
        let limit = self.template.options.connect_timeout;
        let opening = ChannelOpening { new, limit, operation: Box::new(operation) };
        opening.open(&at, place, self.resolver.clone())
    }

    fn new_channel_over(&self, mut transport: Box<dyn Transport>) -> Result<NewChannel, Error> {
        for option in &self.template.socket_options {
            transport.set_option(None, *option)?;
        }
        Ok(self.template.apply(NewChannel::with_transport(transport)))
    }
}

impl fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bootstrap").field("loops", &self.loops).finish_non_exhaustive()
    }
}
