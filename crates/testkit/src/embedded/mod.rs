//! A channel without a network, on a loop without a thread, on a clock that moves when told (O04).
//!
//! ```text
//!    the test                                             the channel
//!    write_inbound ──► wire ──► head ⇄ your handlers ⇄ tail ──► read_inbound
//!    read_outbound ◄── wire ◄──
//! ```
//!
//! What the test lets in waits on the wire until the channel reads, as it would in a socket; what comes
//! out stays on the wire until the test takes it. What passed all handlers is there to be taken too.
//! Nothing runs but inside of the test's own calls.
//!
//! The other end may be a channel as well: [`joined`] makes two, and [`EmbeddedNetwork`] are what bootstraps make
//! servers and clients of, on loops over any driver. So a client's and a server's handlers are tested
//! against each other without a network.
//!
//! ```text
//!    handlers ⇄ head ──► wire ══► inbox of the other ──► head ⇄ handlers
//!                 ◄── inbox ◄══ wire of the other ◄──
//! ```
//!
//! ```
//! use bytes::Bytes;
//! use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
//! use waterwheel_testkit::embedded::Embedded;
//!
//! struct Echo;
//!
//! impl Handler for Echo {
//!     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
//!         ctx.write_and_flush(msg);
//!         Ok(())
//!     }
//! }
//!
//! let mut channel = Embedded::new(|edit| {
//!     edit.add_last("echo", Echo)?;
//!     Ok(())
//! })?;
//! channel.write_inbound(Bytes::from_static(b"hello"));
//! assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello");
//! # Ok::<(), waterwheel_executor::Error>(())
//! ```

mod network;
mod server_transport;
mod stream_transport;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{
    Channel, ChannelFuture, ChannelOptions, Edit, EventLoopGroup, ManualEventLoop, Message, Msg,
    NewChannel, Pipeline,
};
use waterwheel_executor::{Error, Nanos, Reporter, Watchdog};

use self::stream_transport::WireTransport;
use self::wire::Wire;
use crate::manual::Manual;

pub use self::network::{EmbeddedNetwork, EmbeddedPeer, connected_pair};

/// A channel whose other end is the test. See the [module's documentation](self).
pub struct Embedded {
    /// Dropped after the loop: its last turn may ask for the time.
    control: Manual,
    event_loop: ManualEventLoop,
    channel: Channel,
    wire: Wire,
}

/// How an embedded channel is to be.
#[must_use]
#[derive(Clone, Default)]
pub struct EmbeddedBuilder {
    options: ChannelOptions,
    unconnected: bool,
    only_bytes: bool,
    reporter: Option<Arc<dyn Reporter>>,
    watchdog: Option<Watchdog>,
}

impl EmbeddedBuilder {
    /// With these options.
    pub fn options(mut self, options: ChannelOptions) -> Self {
        self.options = options;
        self
    }

    /// Not connected at first: to be connected by the test.
    pub fn unconnected(mut self) -> Self {
        self.unconnected = true;
        self
    }

    /// Reads and writes bytes only, and writes them as a stream, as a socket does.
    pub fn stream(mut self) -> Self {
        self.only_bytes = true;
        self
    }

    /// Who is told of faults: panics, what nobody has dealt with. Default: the log.
    pub fn reporter(mut self, reporter: Arc<dyn Reporter>) -> Self {
        self.reporter = Some(reporter);
        self
    }

    /// Its loop is watched by this one, by the real clock. Default: by none.
    pub fn watchdog(mut self, watchdog: &Watchdog) -> Self {
        self.watchdog = Some(watchdog.clone());
        self
    }

    /// Makes it, with this pipeline.
    ///
    /// # Errors
    /// What the initialiser says; that the types do not fit.
    pub fn build(
        self,
        initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Result<Embedded, Error> {
        let control = Manual::readiness();
        let mut group = EventLoopGroup::builder(control.clone()).name("embedded");
        if let Some(reporter) = self.reporter {
            group = group.reporter(reporter);
        }
        if let Some(watchdog) = &self.watchdog {
            group = group.watchdog(watchdog);
        }
        let mut event_loop = group.build_manual().map_err(Error::new)?;
        let wire = Wire::default();
        let transport = WireTransport::new(wire.clone(), self.unconnected, self.only_bytes);
        let new = NewChannel::new(transport).options(self.options);
        let registered = event_loop.on_loop(|here| here.register_with(new, initialiser));
        let Some(channel) = registered else { unreachable!("a new loop is not over") };
        Ok(Embedded { control, event_loop, channel: channel?, wire })
    }
}

impl fmt::Debug for EmbeddedBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBuilder")
            .field("options", &self.options)
            .field("unconnected", &self.unconnected)
            .field("only_bytes", &self.only_bytes)
            .finish_non_exhaustive()
    }
}

impl Embedded {
    /// Starts to build one that is not quite like the others.
    pub fn builder() -> EmbeddedBuilder {
        EmbeddedBuilder::default()
    }

    /// A connected channel with this pipeline, that takes messages of any type.
    ///
    /// # Errors
    /// What the initialiser says; that the types do not fit.
    pub fn new(
        initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        Self::builder().build(initialiser)
    }

    /// The channel, as any other.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    // From the network's side.

    /// Lets a message in, as one round of reads. It waits on the wire if the channel does not read.
    pub fn write_inbound(&mut self, msg: impl Into<Msg>) {
        self.write_inbound_all([msg.into()]);
    }

    /// Lets messages in, as one round of reads if they are few enough for one.
    pub fn write_inbound_all(&mut self, msgs: impl IntoIterator<Item = Msg>) {
        self.wire.send(msgs);
        self.pump();
    }

    /// The network sends no more.
    pub fn finish_inbound(&mut self) {
        self.wire.finish();
        self.pump();
    }

    /// The network fails.
    pub fn fail(&mut self, error: Error) {
        self.wire.fail(error);
        self.pump();
    }

    /// How many messages wait on the wire because the channel does not read.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.wire.unread()
    }

    /// Takes the next message that went out, if it is a `T`.
    ///
    /// # Panics
    /// If it is something else.
    pub fn read_outbound<T: Message>(&mut self) -> Option<T> {
        self.read_outbound_any().map(|msg| expect(msg, "went out"))
    }

    /// Takes the next message that went out.
    pub fn read_outbound_any(&mut self) -> Option<Msg> {
        self.wire.take_outbound()
    }

    /// How often the channel has written to the network so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.wire.writes()
    }

    // From the far end of the pipeline.

    /// Writes a message from the far end, as [`Channel::write`] does, and runs what that leads to. It goes out with
    /// the next [`flush`](Self::flush).
    pub fn write(&mut self, msg: impl Into<Msg>) -> ChannelFuture {
        self.ask(|channel| channel.write(msg))
    }

    /// Writes a message from the far end and flushes it: what comes out of it is there to be
    /// [taken](Self::read_outbound).
    ///
    /// ```
    /// use bytes::{BufMut, Bytes, BytesMut};
    /// use waterwheel_channel::{Encode, Encoder, HandlerResult};
    /// use waterwheel_testkit::embedded::Embedded;
    ///
    /// struct Big;
    ///
    /// impl Encoder for Big {
    ///     type In = u16;
    ///
    ///     fn encode(&mut self, number: u16, dst: &mut BytesMut) -> HandlerResult {
    ///         dst.put_u16(number);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let mut channel = Embedded::new(|edit| {
    ///     edit.add_last("big", Encode::new(Big))?;
    ///     Ok(())
    /// })?;
    /// channel.write_outbound(258u16).join()?;
    /// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "\x01\x02");
    /// # Ok::<(), waterwheel_executor::Error>(())
    /// ```
    pub fn write_outbound(&mut self, msg: impl Into<Msg>) -> ChannelFuture {
        self.ask(|channel| channel.write_and_flush(msg))
    }

    /// Flushes from the far end what was written.
    pub fn flush(&mut self) {
        self.ask(Channel::flush);
    }

    /// Asks from the far end for a round of reads: for channels that do not read by themselves.
    pub fn read(&mut self) {
        self.ask(Channel::read);
    }

    /// Fires a user event, from the network's end of the pipeline.
    pub fn fire_user_event(&mut self, event: impl Into<Msg>) {
        self.ask(|channel| channel.fire_user_event(event));
    }

    /// Takes the next message that passed all handlers on its way in, if it is a `T`.
    ///
    /// # Panics
    /// If it is something else.
    pub fn read_inbound<T: Message>(&mut self) -> Option<T> {
        self.read_inbound_any().map(|msg| expect(msg, "came in"))
    }

    /// Takes the next message that passed all handlers on its way in.
    pub fn read_inbound_any(&mut self) -> Option<Msg> {
        self.wire.take_inbound()
    }

    /// Takes the next error that passed all handlers.
    pub fn read_error(&mut self) -> Option<Error> {
        self.wire.take_error()
    }

    // Faults.

    /// The network takes at most so many bytes, or messages if they are not bytes, from now on.
    pub fn set_room(&mut self, room: usize) {
        self.wire.set_room(room);
        self.pump();
    }

    /// The network takes everything again, and gives no more short writes.
    pub fn clear_faults(&mut self) {
        self.wire.clear_faults();
        self.pump();
    }

    /// A write takes at most so many bytes, however much there is room for.
    pub fn short_writes(&mut self, at_most: usize) {
        self.wire.short_writes(at_most);
    }

    /// The next write fails.
    pub fn fail_write(&mut self, error: std::io::Error) {
        self.wire.fail_write(error);
    }

    // ClockMode, and the loop.

    /// Runs what there is to do: tasks, futures, timers that are due.
    pub fn run(&mut self) {
        while !self.event_loop.is_terminated() {
            self.event_loop.turn(Some(Duration::ZERO));
            if self.event_loop.is_idle() {
                return;
            }
        }
    }

    /// Moves the clock, at one go, and runs what is due by then. What a timer sets counts from the new
    /// time: to see one that sets itself again several times, advance several times.
    pub fn advance(&mut self, by: Duration) {
        self.control.advance(by);
        self.run();
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.control.clock().now()
    }

    /// Calls `f` on the loop, with the pipeline. `None` if the channel is gone.
    pub fn with_pipeline<R>(&mut self, f: impl FnOnce(Pipeline<'_>) -> R) -> Option<R> {
        let channel = &self.channel;
        let result = self.event_loop.on_loop(|here| here.with_pipeline(channel, f)).flatten();
        self.run();
        result
    }

    /// Calls `f` on the loop.
    pub fn on_loop<R>(&mut self, f: impl FnOnce(&Channel) -> R) -> R {
        let channel = &self.channel;
        match self.event_loop.on_loop(|_| f(channel)) {
            Some(result) => result,
            None => unreachable!("the loop of an embedded channel ends with it"),
        }
    }

    /// Closes the channel, and runs what that leads to.
    pub fn close(&mut self) {
        drop(self.ask(Channel::close));
    }

    /// Calls `f` on the loop, and runs what that leads to.
    fn ask<R>(&mut self, f: impl FnOnce(&Channel) -> R) -> R {
        let asked = self.on_loop(f);
        self.run();
        asked
    }

    fn pump(&mut self) {
        self.event_loop.on_loop(|_| self.wire.wake());
        if !self.event_loop.is_idle() {
            self.run();
        }
    }
}

fn expect<T: Message>(msg: Msg, how: &str) -> T {
    match msg.take() {
        Ok(msg) => msg,
        Err(other) => panic!(
            "a message of type {} {how}, not one of type {}",
            other.type_name(),
            std::any::type_name::<T>()
        ),
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Embedded").field(&self.channel).finish()
    }
}
