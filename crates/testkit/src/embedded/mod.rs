//! A channel without a network, on a manual event loop and a virtual clock (O04).
//!
//! ```text
//!    the test                                             the channel
//!    write_inbound ──► wire ──► head ⇄ your handlers ⇄ tail ──► read_inbound
//!    read_outbound ◄── wire ◄──
//! ```
//!
//! Inbound messages wait on the wire until the channel reads, as in a socket; outbound messages stay on the wire
//! until the test takes them. The test can also take the inbound messages that passed all handlers. Code runs only
//! inside the test's own calls.
//!
//! The other end may be a channel as well: [`connected_pair`] creates two connected channels, and an
//! [`EmbeddedNetwork`] provides bootstraps with servers and clients on loops over any driver. So the handlers of a
//! client and a server are tested against each other without a network.
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
    /// Controls the driver and its clock.
    control: Manual,
    event_loop: ManualEventLoop,
    channel: Channel,
    wire: Wire,
}

/// Builds an [`Embedded`] channel.
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
    /// Sets the channel options.
    pub fn options(mut self, options: ChannelOptions) -> Self {
        self.options = options;
        self
    }

    /// Leaves the channel unconnected; the test connects it.
    pub fn unconnected(mut self) -> Self {
        self.unconnected = true;
        self
    }

    /// Makes the channel a byte stream: it reads and writes bytes only, as a TCP socket does.
    pub fn stream(mut self) -> Self {
        self.only_bytes = true;
        self
    }

    /// Sets the reporter of faults, such as panics and unhandled errors. Default: the log.
    pub fn reporter(mut self, reporter: Arc<dyn Reporter>) -> Self {
        self.reporter = Some(reporter);
        self
    }

    /// Sets a watchdog for the loop, which measures by the real clock. Default: none.
    pub fn watchdog(mut self, watchdog: &Watchdog) -> Self {
        self.watchdog = Some(watchdog.clone());
        self
    }

    /// Builds the channel with the pipeline that `initialiser` sets up.
    ///
    /// # Errors
    /// The error of the initialiser, or message types of neighbouring handlers that do not match.
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
    /// Returns a builder, for channels that differ from the default.
    pub fn builder() -> EmbeddedBuilder {
        EmbeddedBuilder::default()
    }

    /// Creates a connected channel that reads and writes messages of any type.
    ///
    /// # Errors
    /// The error of the initialiser, or message types of neighbouring handlers that do not match.
    pub fn new(
        initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        Self::builder().build(initialiser)
    }

    /// Returns the channel's handle.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    // The network's side.

    /// Sends a message to the channel, as one round of reads. The message waits on the wire while the channel does not
    /// read.
    pub fn write_inbound(&mut self, msg: impl Into<Msg>) {
        self.write_inbound_all([msg.into()]);
    }

    /// Sends messages to the channel, as one round of reads if the read plan allows that many.
    pub fn write_inbound_all(&mut self, msgs: impl IntoIterator<Item = Msg>) {
        self.wire.send(msgs);
        self.pump();
    }

    /// Ends the inbound stream: the channel reads end of file.
    pub fn finish_inbound(&mut self) {
        self.wire.finish();
        self.pump();
    }

    /// Fails the connection with this error.
    pub fn fail(&mut self, error: Error) {
        self.wire.fail(error);
        self.pump();
    }

    /// Returns how many messages wait on the wire because the channel does not read.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.wire.unread()
    }

    /// Takes the next outbound message, which must be a `T`.
    ///
    /// # Panics
    /// If the message has another type.
    pub fn read_outbound<T: Message>(&mut self) -> Option<T> {
        self.read_outbound_any().map(|msg| expect(msg, "was written"))
    }

    /// Takes the next outbound message.
    pub fn read_outbound_any(&mut self) -> Option<Msg> {
        self.wire.take_outbound()
    }

    /// Returns how often the channel has written to the network so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.wire.writes()
    }

    // The application's side: the tail of the pipeline.

    /// Writes a message at the tail, as [`Channel::write`] does, and runs the loop until it is idle. The message is
    /// sent with the next [`flush`](Self::flush).
    pub fn write(&mut self, msg: impl Into<Msg>) -> ChannelFuture {
        self.call(|channel| channel.write(msg))
    }

    /// Writes a message at the tail and flushes it; the test then takes the result with
    /// [`read_outbound`](Self::read_outbound).
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
        self.call(|channel| channel.write_and_flush(msg))
    }

    /// Flushes the written messages, at the tail.
    pub fn flush(&mut self) {
        self.call(Channel::flush);
    }

    /// Requests a round of reads at the tail, for channels without auto-read.
    pub fn read(&mut self) {
        self.call(Channel::read);
    }

    /// Fires a user event at the head of the pipeline.
    pub fn fire_user_event(&mut self, event: impl Into<Msg>) {
        self.call(|channel| channel.fire_user_event(event));
    }

    /// Takes the next inbound message that passed all handlers, which must be a `T`.
    ///
    /// # Panics
    /// If the message has another type.
    pub fn read_inbound<T: Message>(&mut self) -> Option<T> {
        self.read_inbound_any().map(|msg| expect(msg, "was read"))
    }

    /// Takes the next inbound message that passed all handlers.
    pub fn read_inbound_any(&mut self) -> Option<Msg> {
        self.wire.take_inbound()
    }

    /// Takes the next error that passed all handlers.
    pub fn read_error(&mut self) -> Option<Error> {
        self.wire.take_error()
    }

    // Faults.

    /// Limits the network to `room` more bytes, or messages on a channel that is not a byte stream.
    pub fn set_room(&mut self, room: usize) {
        self.wire.set_room(room);
        self.pump();
    }

    /// Removes the limits and faults set by the test.
    pub fn clear_faults(&mut self) {
        self.wire.clear_faults();
        self.pump();
    }

    /// Makes each write take at most `at_most` bytes or messages.
    pub fn short_writes(&mut self, at_most: usize) {
        self.wire.short_writes(at_most);
    }

    /// Fails the next write with this error.
    pub fn fail_write(&mut self, error: std::io::Error) {
        self.wire.fail_write(error);
    }

    // Time, and the loop.

    /// Runs the loop until it is idle: tasks, futures, timers that are due.
    pub fn run(&mut self) {
        while !self.event_loop.is_terminated() {
            self.event_loop.turn(Some(Duration::ZERO));
            if self.event_loop.is_idle() {
                return;
            }
        }
    }

    /// Advances the clock in one step and runs the timers that are due. A timer started meanwhile counts from the new
    /// time: to fire a timer that restarts itself several times, advance several times.
    pub fn advance(&mut self, by: Duration) {
        self.control.advance(by);
        self.run();
    }

    /// Returns the current time of the virtual clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.control.clock().now()
    }

    /// Calls `f` on the loop with the pipeline. Returns `None` if the channel has left its loop.
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

    /// Closes the channel and runs the loop until it is idle.
    pub fn close(&mut self) {
        drop(self.call(Channel::close));
    }

    /// Calls `f` on the loop and runs the loop until it is idle.
    fn call<R>(&mut self, f: impl FnOnce(&Channel) -> R) -> R {
        let result = self.on_loop(f);
        self.run();
        result
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
