//! The cut between a channel and what moves its messages.
//!
//! A transport is the lower end of a channel: a stream over the loop's driver, a connection within the
//! process, a test. It knows messages and bytes; it knows neither handlers nor pipelines.
//!
//! # The contract
//!
//! - A transport is `Send` until it is registered, and stays on one loop from then on. Dropping it
//!   closes it.
//! - It calls nobody inside of its own methods: what happens, it says through its [`Upcalls`], from the
//!   loop, or hands out from [`next_event`](Transport::next_event) after a [`wake`](Upcalls::wake).
//! - It drops no message inside of [`write`](Transport::write): a destructor is the user's, and may call the
//!   channel. What it has no use for it hands to [`Outbound::discard`]; what it keeps it drops when it is dropped.
//! - It reads only while it was told to, and begins with reading off. After every round of reads it
//!   says [`ReadComplete`](TransportEvent::ReadComplete).
//! - After [`close`](Transport::close) it says nothing but, if that was `Pending`,
//!   [`Closed`](TransportEvent::Closed), once.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::rc::Weak;
use std::sync::Arc;

use bytes::Bytes;
use waterwheel_executor::Error;

use super::core::ChannelCore;
use super::error::ChannelError;
use super::handle::Channel;
pub use super::outbound::Outbound;
use super::shared::ChannelShared;
pub use super::sockets::{DatagramSockets, ServerTransports, SocketKind, Sockets, Transports};
use crate::address::{Address, Target};
use crate::driver::{Detach, Io, IoEvent, ReadPlan, Role, SocketOption, Submit};
use crate::event_loop::local_loop::LocalLoop;
use crate::payload::{Credentials, FileRegion, Parcel};
use crate::pipeline::{Msg, TypeTag, Types};
use crate::token::Token;

/// What can be written to a stream of bytes.
pub const STREAM_TYPES: Types =
    Types::These(const { &[TypeTag::of::<Bytes>(), TypeTag::of::<FileRegion>()] });

/// What can be written to a stream that takes parcels.
pub(super) const PASSING_STREAM_TYPES: Types = Types::These(
    const { &[TypeTag::of::<Bytes>(), TypeTag::of::<FileRegion>(), TypeTag::of::<Parcel>()] },
);

/// The lower end of a channel. See the [module's documentation](self) for the contract.
pub trait Transport: Send + 'static {
    /// What it is, for errors: `"stream"`, `"local"`.
    fn name(&self) -> &'static str;

    /// The types of messages it reads.
    fn reads(&self) -> Types;

    /// The types of messages it writes.
    fn accepts(&self) -> Types;

    /// Whether it writes a stream of bytes: it finds them in [`Outbound::bytes`] then, files in
    /// [`Outbound::file`] and parcels in [`Outbound::parcel`] if it accepts them. Otherwise it takes message by message.
    fn writes_stream(&self) -> bool;

    /// Comes to its loop, for the first time or again. Whether it is connected.
    ///
    /// # Errors
    /// It cannot be used here; the channel is closed.
    fn register(&mut self, up: &Upcalls) -> Result<bool, Error>;

    /// Leaves the loop, without being closed.
    ///
    /// # Errors
    /// It cannot.
    fn deregister(&mut self, up: &Upcalls) -> Result<(), Error>;

    /// Binds to an address.
    ///
    /// # Errors
    /// It cannot be had.
    fn bind(&mut self, up: &Upcalls, to: Address) -> Result<(), Error> {
        let _ = (up, to);
        Err(unsupported(self.name(), "be bound"))
    }

    /// Connects, to the first address of the target: done, or pending until
    /// [`Connected`](TransportEvent::Connected) or [`Failed`](TransportEvent::Failed); or the peer has no
    /// room, and it is to be asked again later. It may be tried again after it has failed.
    ///
    /// # Errors
    /// It failed at once.
    fn connect(&mut self, up: &Upcalls, to: &Target) -> Result<Progress, Error> {
        let _ = (up, to);
        Err(unsupported(self.name(), "be connected"))
    }

    /// A connect that was pending has ended well: the channel has heard of it.
    fn connected(&mut self, up: &Upcalls) {
        let _ = up;
    }

    /// A connect that was pending has failed, or is no longer wanted. It says nothing more about it.
    fn abandon_connect(&mut self, up: &Upcalls) {
        let _ = up;
    }

    /// Sets an option: now, or when there is a socket to set it on. Without `up` it is not registered.
    ///
    /// # Errors
    /// There is no such option, or it cannot be set.
    fn set_option(&mut self, up: Option<&Upcalls>, option: SocketOption) -> Result<(), Error> {
        let _ = up;
        let (transport, option) = (self.name(), option.name());
        Err(Error::new(ChannelError::UnsupportedOption { transport, option }))
    }

    /// Sets an option of what it accepts: before it is bound.
    ///
    /// # Errors
    /// There is no such option, or it accepts nothing.
    fn set_child_option(&mut self, option: SocketOption) -> Result<(), Error> {
        let (transport, option) = (self.name(), option.name());
        Err(Error::new(ChannelError::UnsupportedOption { transport, option }))
    }

    /// Ends one direction, or both: the peer reads the end of the stream, or nothing more is read.
    ///
    /// # Errors
    /// It cannot.
    fn shutdown(&mut self, up: &Upcalls, how: Shutdown) -> Result<(), Error> {
        let _ = (up, how);
        Err(unsupported(self.name(), "be closed in one direction"))
    }

    /// Says what an event of the loop's driver means, for a transport that has given the driver a socket. Bytes that
    /// were read and the ends of rounds do not pass here: they mean the same for every transport.
    fn on_driver_event(&mut self, up: &Upcalls, event: IoEvent) -> Option<TransportEvent> {
        let _ = (up, event);
        None
    }

    /// Says what it means that the driver has let a socket go: of its own accord, if there is a cause.
    fn on_driver_detached(&mut self, token: Token, cause: Option<Error>) -> Detached {
        let _ = token;
        Detached::Closed(cause)
    }

    /// Turns reading on or off.
    fn set_read(&mut self, up: &Upcalls, plan: Option<ReadPlan>);

    /// Returns the token under which the loop's driver writes the stream of this transport. While there is one, the
    /// channel hands the bytes of the stream to the driver itself, and [`write`](Self::write) is called for the rest:
    /// files and parcels.
    fn stream_token(&self) -> Option<Token> {
        None
    }

    /// Writes as much as goes at once, and takes it out of the queue. The queue is not empty.
    /// `Full` or `Pending`: nothing more goes until [`Wrote`](TransportEvent::Wrote). What is `Pending`
    /// ends without the peer's help; a close waits for it.
    ///
    /// # Errors
    /// Nothing can be written any more; the channel is closed.
    fn write(&mut self, up: &Upcalls, outbound: &mut Outbound) -> io::Result<Submit>;

    /// The next thing that happened. Asked after a [`wake`](Upcalls::wake), until there is nothing.
    fn next_event(&mut self, up: &Upcalls) -> Option<TransportEvent> {
        let _ = up;
        None
    }

    /// Whether another round of reads could begin at once. Asked after each round: the next one begins
    /// in the next turn of the loop, so that others have theirs.
    fn has_more(&self) -> bool {
        false
    }

    /// Whether it is there to accept connections: a drain closes it, and what it has not accepted with
    /// it.
    fn is_listening(&self) -> bool {
        false
    }

    /// Closes it.
    fn close(&mut self, up: &Upcalls) -> Detach;

    /// Where it is bound.
    fn local_address(&self) -> Option<Address> {
        None
    }

    /// Whom it is connected to.
    fn peer_address(&self) -> Option<Address> {
        None
    }

    /// Who it is connected to: not an address but a process and its user.
    ///
    /// # Errors
    /// It cannot be known.
    fn peer_credentials(&self, up: &Upcalls) -> Result<Credentials, Error> {
        let _ = up;
        Err(unsupported(self.name(), "tell who its peer is"))
    }

    /// A message has passed all handlers: a transport made for tests keeps it.
    fn unhandled(&mut self, msg: Msg) -> Option<Msg> {
        Some(msg)
    }

    /// An error has passed all handlers: a transport made for tests keeps it.
    fn unhandled_error(&mut self, error: Error) -> Option<Error> {
        Some(error)
    }
}

pub(crate) fn unsupported(transport: &'static str, operation: &'static str) -> Error {
    Error::new(ChannelError::Unsupported { transport, operation })
}

/// What the end of a socket means to the channel whose transport had it.
#[derive(Debug)]
pub enum Detached {
    /// The channel's socket is closed; with a cause, because it is broken.
    Closed(Option<Error>),
    /// The attempt to connect has failed.
    Failed(Error),
    /// Nothing: the socket was given up before.
    Stale,
}

/// How far a connect has come.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is connected.
    Done,
    /// It will be, or fail.
    Pending,
    /// There is no room for it now, and nobody tells when there is.
    Later,
}

/// What a transport tells its channel.
#[derive(Debug)]
pub enum TransportEvent {
    /// It is connected.
    Connected,
    /// A pending write has written so many bytes of the stream; zero: there is room again.
    Wrote(usize),
    /// A message came in.
    Read(Msg),
    /// That was all for this round.
    ReadComplete,
    /// The peer will send no more.
    Eof,
    /// The peer will send no more, noticed while reading is off: what it has sent before is still to be read.
    /// Said once at most for each registration, and never after `Eof`.
    PeerFinished,
    /// One read, or accept, failed; the next may not. Reading pauses.
    ReadFailed(Error),
    /// Something went wrong that leaves it as it was: a datagram was not received, or one that was sent
    /// has not arrived.
    Notice(Error),
    /// It is broken; or the connect that was pending has failed.
    Failed(Error),
    /// It is closed, after a close that was pending.
    Closed,
}

/// A transport's way to its channel, on their loop. It does not keep the channel alive.
#[derive(Clone)]
pub struct Upcalls {
    here: LocalLoop,
    core: Weak<ChannelCore>,
}

impl Upcalls {
    pub(crate) fn new(here: &LocalLoop, core: Weak<ChannelCore>) -> Self {
        Self { here: here.clone(), core }
    }

    /// The loop.
    #[must_use]
    pub fn event_loop(&self) -> &LocalLoop {
        &self.here
    }

    /// Tells the channel. To be called from the loop, never inside of a method of the transport.
    pub fn event(&self, event: TransportEvent) {
        if let Some(core) = self.core.upgrade() {
            core.on_transport_event(event);
        }
    }

    /// Gives the driver a socket, and sets its options. It is let go if one cannot be set.
    #[track_caller]
    pub(super) fn attach(
        &self,
        io: Io,
        role: Role,
        options: Vec<SocketOption>,
    ) -> io::Result<Token> {
        let Some(core) = self.core.upgrade() else { return Err(io::ErrorKind::NotFound.into()) };
        let token = self.here.attach_for(io, role, core)?;
        let set = |option| self.here.set_option(token, option);
        let all = options.into_iter().try_for_each(set).map(|()| token);
        if all.is_err() {
            self.here.detach(token);
        }
        all
    }

    /// The channel is to ask for events, soon: at the end of this turn's work. May be called anywhere
    /// on the loop.
    pub fn wake(&self) {
        if let Some(core) = self.core.upgrade() {
            core.pump_later();
        }
    }

    /// The same, from any thread.
    #[must_use]
    pub fn waker(&self) -> Option<TransportWaker> {
        self.core.upgrade().map(|core| TransportWaker { shared: core.shared().clone() })
    }

    /// The channel, for any thread.
    #[must_use]
    pub fn channel(&self) -> Option<Channel> {
        self.core.upgrade().map(|core| core.channel())
    }
}

impl fmt::Debug for Upcalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upcalls").field(&self.core.upgrade()).finish()
    }
}

/// Makes a channel ask its transport for events, from any thread.
#[derive(Clone, Debug)]
pub struct TransportWaker {
    shared: Arc<ChannelShared>,
}

impl TransportWaker {
    /// The channel is to ask for events: at the end of this turn's work on its own loop, elsewhere by
    /// a command. Nothing happens if the loop is gone.
    pub fn wake(&self) {
        self.shared.pump();
    }
}
