//! The interface between a channel and the transport that moves its messages.
//!
//! A transport is the lower end of a channel: a stream over the loop's driver, a connection within the process,
//! a test. It knows messages and bytes, but neither handlers nor pipelines.
//!
//! # The contract
//!
//! - A transport is `Send` until it is registered, and stays on one loop from then on. Dropping it closes it.
//! - It makes no calls to its channel inside of its own methods. It reports events through its
//!   [`TransportContext`], from the loop, or returns them from [`next_event`](Transport::next_event) after a
//!   [`wake`](TransportContext::wake).
//! - It drops no message inside of [`write`](Transport::write): a destructor is user code, and may call the
//!   channel. It passes messages that it does not need to [`Outbound::discard`]; messages that it keeps are
//!   dropped with it.
//! - It reads only while it was told to, and starts with reading off. After every round of reads it reports
//!   [`ReadComplete`](TransportEvent::ReadComplete).
//! - After [`close`](Transport::close) it reports nothing but one [`Closed`](TransportEvent::Closed), if `close`
//!   returned `Pending`.

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
use crate::base::token::Token;
use crate::channel::error::ChannelError;
pub use crate::channel::transport::context::{TransportContext, TransportWaker};
pub use crate::channel::transport::factories::{
    DatagramSocketFactory, ServerTransportFactory, SocketFactory, SocketKind, TransportFactory,
};
pub use crate::channel::writing::outbound::Outbound;
use crate::driver::{Detach, IoEvent, ReadPlan, SocketOption, Submit};
use crate::payload::{AncillaryMessage, Credentials, FileRegion};
use crate::pipeline::{Msg, TypeTag, Types};

/// The types that can be written to a stream of bytes.
pub const STREAM_TYPES: Types =
    Types::These(const { &[TypeTag::of::<Bytes>(), TypeTag::of::<FileRegion>()] });

/// The types that can be written to a stream that accepts ancillary messages.
pub(in crate::channel) const ANCILLARY_STREAM_TYPES: Types = Types::These(
    const { &[TypeTag::of::<Bytes>(), TypeTag::of::<FileRegion>(), TypeTag::of::<AncillaryMessage>()] },
);

/// The lower end of a channel. See the [module's documentation](self) for the contract.
pub trait Transport: Send + 'static {
    /// Returns the name of the transport, for errors: `"stream"`, `"local"`.
    fn name(&self) -> &'static str;

    /// Returns the types of messages that the transport reads.
    fn reads(&self) -> Types;

    /// Returns the types of messages that the transport writes.
    fn accepts(&self) -> Types;

    /// True if the transport writes a stream: bytes from [`Outbound::bytes`], files from [`Outbound::file`] and, if
    /// the transport accepts them, ancillary messages from [`Outbound::ancillary`]. Otherwise it writes message by
    /// message.
    fn writes_stream(&self) -> bool;

    /// Registers the transport with its loop, for the first time or again. Returns true if it is connected.
    ///
    /// # Errors
    /// The transport cannot be used here; the channel is closed.
    fn register(&mut self, context: &TransportContext) -> Result<bool, Error>;

    /// Deregisters the transport from its loop without closing it.
    ///
    /// # Errors
    /// The transport cannot be deregistered now.
    fn deregister(&mut self, context: &TransportContext) -> Result<(), Error>;

    /// Binds to an address.
    ///
    /// # Errors
    /// The address is not available.
    fn bind(&mut self, context: &TransportContext, to: Address) -> Result<(), Error> {
        let _ = (context, to);
        Err(unsupported(self.name(), "be bound"))
    }

    /// Connects to the first address of the target. The result is done; or pending until
    /// [`Connected`](TransportEvent::Connected) or [`Failed`](TransportEvent::Failed); or to be repeated later,
    /// because the peer's backlog is full. A connect may be repeated after it has failed.
    ///
    /// # Errors
    /// The connect failed at once.
    fn connect(
        &mut self,
        context: &TransportContext,
        to: &ConnectTarget,
    ) -> Result<ConnectProgress, Error> {
        let _ = (context, to);
        Err(unsupported(self.name(), "be connected"))
    }

    /// Called when the channel has handled the success of a pending connect.
    fn on_connected(&mut self, context: &TransportContext) {
        let _ = context;
    }

    /// Gives up a pending connect that has failed or was cancelled. The transport reports nothing more about
    /// it.
    fn abandon_connect(&mut self, context: &TransportContext) {
        let _ = context;
    }

    /// Sets an option: now, or when there is a socket. `context` is absent before the registration.
    ///
    /// # Errors
    /// The option is not supported, or cannot be set.
    fn set_option(
        &mut self,
        context: Option<&TransportContext>,
        option: SocketOption,
    ) -> Result<(), Error> {
        let _ = context;
        let (transport, option) = (self.name(), option.name());
        Err(Error::new(ChannelError::UnsupportedOption { transport, option }))
    }

    /// Sets an option of accepted connections. Called before the transport is bound.
    ///
    /// # Errors
    /// The option is not supported, or the transport accepts no connections.
    fn set_child_option(&mut self, option: SocketOption) -> Result<(), Error> {
        let (transport, option) = (self.name(), option.name());
        Err(Error::new(ChannelError::UnsupportedOption { transport, option }))
    }

    /// Shuts down one direction, or both: the peer reads end-of-stream, or nothing more is read.
    ///
    /// # Errors
    /// The transport does not support it, or is not connected.
    fn shutdown(&mut self, context: &TransportContext, how: Shutdown) -> Result<(), Error> {
        let _ = (context, how);
        Err(unsupported(self.name(), "be closed in one direction"))
    }

    /// Translates an event of the loop's driver, for a transport that has attached a socket. Not called for
    /// bytes that were read and for the ends of rounds, which mean the same for every transport.
    fn on_driver_event(
        &mut self,
        context: &TransportContext,
        event: IoEvent,
    ) -> Option<TransportEvent> {
        let _ = (context, event);
        None
    }

    /// Translates that the driver has detached a socket; with a cause, if the driver did so because of an
    /// error.
    fn on_driver_detached(&mut self, token: Token, cause: Option<Error>) -> DetachOutcome {
        let _ = token;
        DetachOutcome::Closed(cause)
    }

    /// Turns reading on or off.
    fn set_read(&mut self, context: &TransportContext, plan: Option<ReadPlan>);

    /// Returns the token under which the loop's driver writes the stream of this transport. With a token, the
    /// channel passes the bytes of the stream to the driver itself, and calls [`write`](Self::write) for files
    /// and ancillary messages only.
    fn stream_token(&self) -> Option<Token> {
        None
    }

    /// Writes as much of the buffer as possible now, and removes the written part. The buffer is not empty. After
    /// `Full` or `Pending` the channel writes nothing until [`Wrote`](TransportEvent::Wrote). A `Pending` write ends
    /// without the peer reading; a close waits for it.
    ///
    /// # Errors
    /// Nothing can be written any more; the channel is closed.
    fn write(&mut self, context: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit>;

    /// Returns the next event. Called after a [`wake`](TransportContext::wake), until it returns `None`.
    fn next_event(&mut self, context: &TransportContext) -> Option<TransportEvent> {
        let _ = context;
        None
    }

    /// True if another round of reads could begin at once. Called after each round: the next one begins in the
    /// next turn of the loop, after other channels.
    fn has_more(&self) -> bool {
        false
    }

    /// True if the transport accepts connections: a drain closes it, together with the connections in its
    /// backlog.
    fn is_listening(&self) -> bool {
        false
    }

    /// Closes the transport.
    fn close(&mut self, context: &TransportContext) -> Detach;

    /// Returns the address that the transport is bound to.
    fn local_address(&self) -> Option<Address> {
        None
    }

    /// Returns the address that the transport is connected to.
    fn peer_address(&self) -> Option<Address> {
        None
    }

    /// Returns the process and the user at the other end (SO_PEERCRED).
    ///
    /// # Errors
    /// The credentials are not available.
    fn peer_credentials(&self, context: &TransportContext) -> Result<Credentials, Error> {
        let _ = context;
        Err(unsupported(self.name(), "tell who its peer is"))
    }

    /// Handles a message that no handler took. A transport for tests keeps the message; any other returns it.
    fn unhandled(&mut self, msg: Msg) -> Option<Msg> {
        Some(msg)
    }

    /// Handles an error that no handler took. A transport for tests keeps the error; any other returns it.
    fn unhandled_error(&mut self, error: Error) -> Option<Error> {
        Some(error)
    }
}

pub(crate) fn unsupported(transport: &'static str, operation: &'static str) -> Error {
    Error::new(ChannelError::Unsupported { transport, operation })
}

/// The meaning of a detached socket for its channel.
#[derive(Debug)]
pub enum DetachOutcome {
    /// The channel's socket is closed; with a cause if it is broken.
    Closed(Option<Error>),
    /// The attempt to connect has failed.
    Failed(Error),
    /// Nothing: the socket was given up before.
    Stale,
}

/// The result of a connect.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectProgress {
    /// Connected.
    Done,
    /// The connect is in progress; an event reports its success or failure later.
    Pending,
    /// The peer's backlog is full, and no event tells when there is room (EAGAIN of a Unix socket). The channel
    /// repeats the connect after a pause.
    Later,
}

/// An event that a transport reports to its channel.
#[derive(Debug)]
pub enum TransportEvent {
    /// A pending connect was successful.
    Connected,
    /// A pending write has written this many bytes of the stream; zero: the transport is writable again.
    Wrote(usize),
    /// A message was read.
    Read(Msg),
    /// The end of a round of reads.
    ReadComplete,
    /// End-of-stream: the peer has finished sending.
    Eof,
    /// The peer has finished sending, noticed while reading is off: data that it sent before may be unread.
    /// Reported at most once per registration, and never after `Eof`.
    PeerFinished,
    /// A read or accept failed, but a later one may succeed. Reads pause.
    ReadFailed(Error),
    /// An error that leaves the transport usable: a datagram was not received, or a sent one did not arrive.
    Notice(Error),
    /// The transport is broken; or a pending connect has failed.
    Failed(Error),
    /// A pending close has finished.
    Closed,
}
