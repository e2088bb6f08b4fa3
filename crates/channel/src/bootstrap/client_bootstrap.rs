//! Clients.

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

/// Makes client channels: any number of them, each on the next loop of its group, or all on one given loop.
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
#[must_use = "it makes channels when it is told to connect"]
pub struct Bootstrap {
    loops: Loops,
    transports: Arc<dyn TransportFactory>,
    resolver: Option<Arc<dyn Resolver>>,
    local: Option<Address>,
    pub(super) template: ChannelTemplate,
}

impl Bootstrap {
    /// Makes channels of this kind on the loops of a group, or on one given loop: that of the caller, say, or one
    /// that is turned by hand.
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

    /// What makes the pipeline of each: called on its loop. If it fails the channel is closed, and the
    /// future says so.
    pub fn initialiser(
        mut self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.template.initialise_by(initialiser);
        self
    }

    /// The options of each.
    pub fn options(mut self, options: impl Into<Arc<ChannelOptions>>) -> Self {
        self.template.options = options.into();
        self
    }

    /// An option of the socket of each. One that the transport does not have fails the connect.
    pub fn socket_option(mut self, option: SocketOption) -> Self {
        self.template.socket_options.push(option);
        self
    }

    /// An attribute of each; they share the value.
    pub fn attribute<T: Send + Sync + 'static>(self, key: &AttrKey<T>, value: T) -> Self {
        self.template.attributes.set(key, value);
        self
    }

    /// The address to connect from.
    pub fn local_address(mut self, local: impl Into<Address>) -> Self {
        self.local = Some(local.into());
        self
    }

    /// Who resolves names, instead of the one that belongs to the transport.
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Connects a new channel. All addresses of a name are tried, one after the other, within the
    /// [`connect_timeout`](ChannelOptions::connect_timeout); looking the name up may take as long. The
    /// future gives the channel when it is connected; cancelling it gives the attempt up.
    #[track_caller]
    pub fn connect(&self, to: impl Into<AddressSpec>) -> PromiseFuture<Channel> {
        let local = self.local.clone();
        self.open(to, move |pipeline, addresses, done| {
            let mut addresses = addresses.into_iter();
            // There is at least one.
            let Some(remote) = addresses.next() else { return };
            let target = ConnectTarget { remote, others: addresses.collect(), local };
            pipeline.connect_with(target, done);
        })
    }

    /// Binds a new channel that needs no connection: one of [datagrams](crate::Datagrams). A name is bound
    /// at the first of its addresses. The future gives the channel when it is bound.
    #[track_caller]
    pub fn bind(&self, to: impl Into<AddressSpec>) -> PromiseFuture<Channel> {
        self.open(to, |pipeline, mut addresses, done| {
            // There is at least one.
            pipeline.bind_with(addresses.swap_remove(0), done);
        })
    }

    /// Makes a channel of a connection that is there already: one that was inherited, or made elsewhere.
    /// The future gives the channel when it is active. Options are set on the socket; it keeps those that
    /// nothing is said about.
    #[track_caller]
    pub fn adopt(&self, connection: impl Transport) -> PromiseFuture<Channel> {
        if connection.is_listening() {
            let error = unsupported(connection.name(), "be a connection: it accepts them");
            return self.loops.failed(error);
        }
        let new =
            run_callback("transport", || self.new_channel_over(Box::new(connection))).flatten();
        match new.and_then(|new| self.loops.place(new)) {
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
        let placed = made.flatten().and_then(|(to, new)| Ok((to, self.loops.place(new)?)));
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
        Ok(self.template.apply(NewChannel::over(transport)))
    }
}

impl fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bootstrap").field("loops", &self.loops).finish_non_exhaustive()
    }
}
