//! Channels that are not registered with a loop yet (L01).

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use waterwheel_executor::engine::CommandAccess;
use waterwheel_executor::{Error, Promise, PromiseFuture};

use crate::address::Address;
use crate::channel::core::ChannelCore;
use crate::channel::handle::Channel;
use crate::channel::handle::attributes::{AttrKey, Attributes};
use crate::channel::handle::shared_state::{ChannelAddresses, ChannelShared};
use crate::channel::options::ChannelOptions;
use crate::channel::transport::Transport;
use crate::channel::transport::stream::Stream;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::LoopDraining;
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::{LocalLoop, LoopShutDown};
use crate::event_loop::loop_pool::LoopLease;
use crate::pipeline::{Completion, Edit, Message, Pipeline};

/// A channel before it is registered: a transport, the initialiser of its pipeline, and options. It may be sent
/// to another thread, or through a pipeline as a message: a server reads one for each connection it accepts.
/// Dropping it closes the connection.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{
///     AttrKey, ChannelOptions, EventLoopGroup, Handler, NewChannel, WaterMarks, local,
/// };
///
/// static USER: AttrKey<String> = AttrKey::new("user");
///
/// struct Pass;
///
/// impl Handler for Pass {}
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let new = NewChannel::new(local::Connection::new())
///     .options(ChannelOptions { water_marks: WaterMarks::new(1024, 4096)?, ..Default::default() })
///     .attribute(&USER, "anna".to_owned())
///     .initialiser(|edit| {
///         edit.add_last("pass", Pass)?;
///         Ok(())
///     });
/// let channel = group.register(new).join()?;
/// assert_eq!(*channel.attribute(&USER).unwrap(), "anna");
/// assert!(channel.is_registered() && !channel.is_active(), "to be connected");
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it closes the channel"]
pub struct NewChannel {
    transport: Box<dyn Transport>,
    initialiser: Option<Initialiser>,
    options: Arc<ChannelOptions>,
    attributes: Attributes,
    parent: Option<Channel>,
    /// The addresses of an accepted connection, as far as they are known without a system call.
    addresses: ChannelAddresses,
    /// The lease of a loop that only this channel uses.
    lease: Option<LoopLease>,
}

enum Initialiser {
    Own(OwnInitialiser),
    Shared(SharedInitialiser),
}

type OwnInitialiser = Box<dyn FnOnce(&mut Edit<'_>) -> Result<(), Error> + Send>;

/// An initialiser for the pipelines of many channels.
pub(crate) type SharedInitialiser = Arc<dyn Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync>;

impl Initialiser {
    fn initialise(self, edit: &mut Edit<'_>) -> Result<(), Error> {
        match self {
            Initialiser::Own(initialiser) => initialiser(edit),
            Initialiser::Shared(initialiser) => initialiser(edit),
        }
    }
}

/// Adds nothing to the pipeline that the channel's own initialiser makes.
fn add_nothing(_: &mut Edit<'_>) -> Result<(), Error> {
    Ok(())
}

impl NewChannel {
    /// Creates a channel over a transport, without handlers.
    pub fn new(transport: impl Transport) -> Self {
        Self::with_transport(Box::new(transport))
    }

    pub(crate) fn with_transport(transport: Box<dyn Transport>) -> Self {
        Self {
            transport,
            initialiser: None,
            options: ChannelOptions::shared_default(),
            attributes: Attributes::default(),
            parent: None,
            addresses: ChannelAddresses::default(),
            lease: None,
        }
    }

    /// Sets the initialiser of the pipeline, which is called on the loop when the channel is registered. If it
    /// fails, the channel is closed and the registration fails. The handlers it creates need not be `Send`.
    pub fn initialiser(
        mut self,
        initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error> + Send + 'static,
    ) -> Self {
        self.initialiser = Some(Initialiser::Own(Box::new(initialiser)));
        self
    }

    /// Sets an initialiser that is shared with other channels.
    pub(crate) fn shared_initialiser(mut self, initialiser: SharedInitialiser) -> Self {
        self.initialiser = Some(Initialiser::Shared(initialiser));
        self
    }

    /// Adds attributes for keys that have no value yet.
    pub(crate) fn attributes(self, others: &Attributes) -> Self {
        self.attributes.add(others);
        self
    }

    /// Sets the options; an `Arc` shares them with other channels.
    pub fn options(mut self, options: impl Into<Arc<ChannelOptions>>) -> Self {
        self.options = options.into();
        self
    }

    /// Sets an attribute.
    pub fn attribute<T: Send + Sync + 'static>(self, key: &AttrKey<T>, value: T) -> Self {
        self.attributes.set(key, value);
        self
    }

    /// Returns the value for a key.
    #[must_use]
    pub fn get_attribute<T: Send + Sync + 'static>(&self, key: &AttrKey<T>) -> Option<Arc<T>> {
        self.attributes.get(key)
    }

    /// Returns the address the channel is bound to, as far as it is known before registration.
    #[must_use]
    pub fn local_address(&self) -> Option<Address> {
        self.addresses.local.clone().or_else(|| self.transport.local_address())
    }

    /// Returns the address the channel is connected to.
    #[must_use]
    pub fn peer_address(&self) -> Option<Address> {
        self.addresses.peer.clone().or_else(|| self.transport.peer_address())
    }

    /// Creates the channel of a connection that a listener has accepted. The addresses are kept here and not in
    /// the transport, which would keep a second copy beside the channel's. If the local address is unknown, the
    /// driver is asked for it when the channel becomes active.
    pub(in crate::channel) fn accepted(
        child: Stream,
        addresses: ChannelAddresses,
        parent: Option<Channel>,
    ) -> Self {
        Self { addresses, parent, ..Self::new(child) }
    }

    /// Sets the lease of a loop that only this channel uses; `None` if the channel shares a loop.
    pub(crate) fn with_lease(mut self, lease: Option<LoopLease>) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the channel that accepted this one.
    pub fn parent(mut self, parent: Channel) -> Self {
        self.parent = Some(parent);
        self
    }
}

impl Message for NewChannel {}

impl fmt::Debug for NewChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewChannel({})", self.transport.name())
    }
}

impl LocalLoop {
    /// Registers a channel with this loop at once. `more` adds handlers, after those of the channel's own
    /// initialiser; `more` is called on this thread and need not be `Send`.
    ///
    /// # Errors
    /// The loop is shutting down ([`LoopShutDown`]) or draining ([`LoopDraining`]), an initialiser has failed,
    /// or the transport cannot be used here. The channel is closed then.
    pub fn register_with(
        &self,
        new: NewChannel,
        more: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Result<Channel, Error> {
        let channel = self.make_channel(new, more);
        self.channels().run_deferred_if_outermost();
        channel
    }

    /// Registers a channel with this loop: creates its pipeline, completes the promise, then fires registered
    /// and, if the channel is connected, active.
    pub(crate) fn register_channel(&self, new: NewChannel, mut promise: Promise<Channel>) {
        if !promise.set_uncancellable() {
            return;
        }
        match self.make_channel(new, add_nothing) {
            Ok(channel) => promise.set_success(channel),
            Err(error) => promise.set_failure(error),
        };
        self.channels().run_deferred_if_outermost();
    }

    fn make_channel(
        &self,
        new: NewChannel,
        more: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Result<Channel, Error> {
        if self.is_closing() {
            return Err(Error::new(LoopShutDown));
        }
        if self.is_draining() {
            return Err(Error::new(LoopDraining));
        }
        let NewChannel { transport, initialiser, options, attributes, parent, addresses, lease } =
            new;
        let lease = match lease {
            None => self.claim_lease()?,
            taken => taken,
        };
        let sender = self.sender().clone();
        let listens = transport.is_listening();
        let mut shared = ChannelShared::new(sender, options, attributes, parent, listens);
        shared.set_early_addresses(addresses);
        let shared = Arc::new(shared);
        let core = ChannelCore::new(self.clone(), shared.clone(), transport);
        shared.set_token(self.channels().insert(core.clone()));
        self.keep_lease(lease);
        let initialise = |edit: &mut Edit<'_>| {
            initialiser.map_or(Ok(()), |initialiser| initialiser.initialise(edit))?;
            more(edit)
        };
        self.counters().set_channels(self.channels().len());
        // Messages that handlers write while they are added are sent once the channel is registered.
        let held = self.channels().postpone_deferred();
        let made = enter_with_result(&core, |core| Edit::perform(core, initialise))
            .and_then(|()| enter_with_result(&core, ChannelCore::register));
        drop(held);
        if let Err(error) = &made {
            core.close(Some(error.clone()), Completion::none());
        }
        made.map(|()| Channel::new(shared))
    }

    /// Calls `f` with the pipeline of a channel of this loop. Returns `None` if the channel is gone or belongs
    /// to another loop, or if `f` panics, which closes the channel.
    pub fn with_pipeline<R>(
        &self,
        channel: &Channel,
        f: impl FnOnce(Pipeline<'_>) -> R,
    ) -> Option<R> {
        let core = self.channels().find(channel.token())?;
        if core.channel() != *channel {
            return None;
        }
        let mut result = None;
        core.enter(|core| result = Some(f(Pipeline::new(core))));
        result
    }

    /// Returns the channels that are registered with this loop.
    #[must_use]
    pub fn registered_channels(&self) -> Vec<Channel> {
        self.channels().registered()
    }
}

/// Calls `f` inside of the channel and returns its result.
fn enter_with_result(
    core: &Rc<ChannelCore>,
    f: impl FnOnce(&Rc<ChannelCore>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut done = None;
    core.enter(|core| done = Some(f(core)));
    // No result: `f` panicked, and the panic has closed the channel.
    done.unwrap_or_else(|| Err(core.closed_error()))
}

impl EventLoop {
    /// Registers a channel with this loop. The future returns the channel once its pipeline is complete. It
    /// fails, and the channel is closed, if the loop is shut down or draining ([`LoopDraining`]), the
    /// initialiser fails, or the transport cannot be used here.
    #[track_caller]
    pub fn register(&self, new: NewChannel) -> PromiseFuture<Channel> {
        let (promise, future) = self.new_promise();
        if let Some(here) = LocalLoop::current().filter(|_| self.in_event_loop()) {
            here.register_channel(new, promise);
            return future;
        }
        let new = Box::new((new, promise));
        let register = LoopCommand::new(|here| {
            let (new, promise) = *new;
            here.register_channel(new, promise);
        });
        match self.send_lasting(register) {
            Ok(()) => future,
            Err(rejected) => self.failed(rejected.into()),
        }
    }

    /// Returns the channels that are registered with this loop.
    #[track_caller]
    pub fn registered_channels(&self) -> PromiseFuture<Vec<Channel>> {
        let (promise, future) = self.new_promise();
        let list = move |here: &LocalLoop| {
            promise.set_success(here.registered_channels());
        };
        match self.send(LoopCommand::of_any_size(list)) {
            Ok(()) => future,
            Err(rejected) => self.failed(rejected.into()),
        }
    }
}

impl EventLoopGroup {
    /// Chooses a loop for a channel. On an error the channel is closed.
    pub(crate) fn assign_loop(&self, new: NewChannel) -> Result<(EventLoop, NewChannel), Error> {
        self.loop_for_channel().map(|(at, lease)| (at, new.with_lease(lease)))
    }

    /// Registers a channel with the next loop, as [`EventLoop::register`] does. A group with one loop per
    /// channel gives it a loop of its own, and fails if there are [too many channels](crate::TooManyChannels).
    #[track_caller]
    pub fn register(&self, new: NewChannel) -> PromiseFuture<Channel> {
        match self.assign_loop(new) {
            Ok((at, new)) => at.register(new),
            Err(error) => self.next().failed(error),
        }
    }
}
