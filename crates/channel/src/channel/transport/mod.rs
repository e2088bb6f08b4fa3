//! The cut between a channel and what moves its messages.
//!
//! A transport is the lower end of a channel: a stream over the loop's driver, a connection within the
//! process, a test. It knows messages and bytes; it knows neither handlers nor pipelines.
//!
//! # The contract
//!
//! - A transport is `Send` until it is registered, and stays on one loop from then on. Dropping it
//!   closes it.
//! - It calls nobody inside of its own methods: what happens, it says through its [`TransportContext`], from the
//!   loop, or hands out from [`next_event`](Transport::next_event) after a [`wake`](TransportContext::wake).
//! - It drops no message inside of [`write`](Transport::write): a destructor is the user's, and may call the
//!   channel. What it has no use for it hands to [`Outbound::discard`]; what it keeps it drops when it is dropped.
//! - It reads only while it was told to, and begins with reading off. After every round of reads it
//!   says [`ReadComplete`](TransportEvent::ReadComplete).
//! - After [`close`](Transport::close) it says nothing but, if that was `Pending`,
//!   [`Closed`](TransportEvent::Closed), once.

mod context;
pub(crate) mod datagrams;
mod driver_socket;
mod factories;
pub(crate) mod listener;
pub(crate) mod stream;

use std::io;
use std::net::Shutdown;

use bytes::Bytes;
use waterwheel_executor::Error;

use crate::address::{Address, ConnectTarget};
use crate::channel::error::ChannelError;
pub use crate::channel::transport::context::{TransportContext, TransportWaker};
pub use crate::channel::transport::factories::{
    DatagramSocketFactory, ServerTransportFactory, SocketFactory, SocketKind, TransportFactory,
};
pub use crate::channel::writing::outbound::Outbound;
use crate::driver::{Detach, IoEvent, ReadPlan, SocketOption, Submit};
use crate::payload::{AncillaryMessage, Credentials, FileRegion};
use crate::pipeline::{Msg, TypeTag, Types};
use crate::token::Token;

/// What can be written to a stream of bytes.
pub const STREAM_TYPES: Types =
    Types::These(const { &[TypeTag::of::<Bytes>(), TypeTag::of::<FileRegion>()] });

/// What can be written to a stream that takes ancillary messages.
pub(in crate::channel) const PASSING_STREAM_TYPES: Types = Types::These(
    const { &[TypeTag::of::<Bytes>(), TypeTag::of::<FileRegion>(), TypeTag::of::<AncillaryMessage>()] },
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
    /// [`Outbound::file`] and ancillary messages in [`Outbound::ancillary`] if it accepts them. Otherwise it takes message by message.
    fn writes_stream(&self) -> bool;

    /// Comes to its loop, for the first time or again. Whether it is connected.
    ///
    /// # Errors
    /// It cannot be used here; the channel is closed.
    fn register(&mut self, up: &TransportContext) -> Result<bool, Error>;

    /// Leaves the loop, without being closed.
    ///
    /// # Errors
    /// It cannot.
    fn deregister(&mut self, up: &TransportContext) -> Result<(), Error>;

    /// Binds to an address.
    ///
    /// # Errors
    /// It cannot be had.
    fn bind(&mut self, up: &TransportContext, to: Address) -> Result<(), Error> {
        let _ = (up, to);
        Err(unsupported(self.name(), "be bound"))
    }

    /// Connects, to the first address of the target: done, or pending until
    /// [`Connected`](TransportEvent::Connected) or [`Failed`](TransportEvent::Failed); or the peer has no
    /// room, and it is to be asked again later. It may be tried again after it has failed.
    ///
    /// # Errors
    /// It failed at once.
    fn connect(
        &mut self,
        up: &TransportContext,
        to: &ConnectTarget,
    ) -> Result<ConnectProgress, Error> {
        let _ = (up, to);
        Err(unsupported(self.name(), "be connected"))
    }

    /// A connect that was pending has ended well: the channel has heard of it.
    fn connected(&mut self, up: &TransportContext) {
        let _ = up;
    }

    /// A connect that was pending has failed, or is no longer wanted. It says nothing more about it.
    fn abandon_connect(&mut self, up: &TransportContext) {
        let _ = up;
    }

    /// Sets an option: now, or when there is a socket to set it on. Without `up` it is not registered.
    ///
    /// # Errors
    /// There is no such option, or it cannot be set.
    fn set_option(
        &mut self,
        up: Option<&TransportContext>,
        option: SocketOption,
    ) -> Result<(), Error> {
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
    fn shutdown(&mut self, up: &TransportContext, how: Shutdown) -> Result<(), Error> {
        let _ = (up, how);
        Err(unsupported(self.name(), "be closed in one direction"))
    }

    /// Says what an event of the loop's driver means, for a transport that has given the driver a socket. Bytes that
    /// were read and the ends of rounds do not pass here: they mean the same for every transport.
    fn on_driver_event(&mut self, up: &TransportContext, event: IoEvent) -> Option<TransportEvent> {
        let _ = (up, event);
        None
    }

    /// Says what it means that the driver has let a socket go: of its own accord, if there is a cause.
    fn on_driver_detached(&mut self, token: Token, cause: Option<Error>) -> DetachOutcome {
        let _ = token;
        DetachOutcome::Closed(cause)
    }

    /// Turns reading on or off.
    fn set_read(&mut self, up: &TransportContext, plan: Option<ReadPlan>);

    /// Returns the token under which the loop's driver writes the stream of this transport. While there is one, the
    /// channel hands the bytes of the stream to the driver itself, and [`write`](Self::write) is called for the rest:
    /// files and ancillary messages.
    fn stream_token(&self) -> Option<Token> {
        None
    }

    /// Writes as much as goes at once, and takes it out of the queue. The queue is not empty.
    /// `Full` or `Pending`: nothing more goes until [`Wrote`](TransportEvent::Wrote). What is `Pending`
    /// ends without the peer's help; a close waits for it.
    ///
    /// # Errors
    /// Nothing can be written any more; the channel is closed.
    fn write(&mut self, up: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit>;

    /// The next thing that happened. Asked after a [`wake`](TransportContext::wake), until there is nothing.
    fn next_event(&mut self, up: &TransportContext) -> Option<TransportEvent> {
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
    fn close(&mut self, up: &TransportContext) -> Detach;

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
    fn peer_credentials(&self, up: &TransportContext) -> Result<Credentials, Error> {
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
pub enum DetachOutcome {
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
pub enum ConnectProgress {
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
