//! The transport for datagrams over the loop's driver.

use std::io;
use std::sync::Arc;

use waterwheel_executor::Error;

use crate::address::{Address, ConnectTarget, UnixAddress};
use crate::channel::error::ChannelError;
use crate::channel::transport::driver_socket::DriverSocket;
use crate::channel::transport::factories::DatagramSocketFactory;
use crate::channel::transport::{
    ConnectProgress, Transport, TransportContext, TransportEvent, unsupported,
};
use crate::channel::writing::outbound::Outbound;
use crate::driver::{Detach, IoEvent, MAX_DATAGRAM_BATCH, ReadPlan, Role, SocketOption, Submit};
use crate::payload::{AncillaryMessage, Credentials, Datagram};
use crate::pipeline::{Msg, TypeTag, Types};

/// Datagrams over the driver of the loop. It reads and writes [`Datagram`]s.
///
/// The channel is active when it is bound or connected. While it is connected, the kernel receives only from
/// the peer, and sends datagrams without an address to the peer.
///
/// - A datagram that cannot be sent, because it is too long or its peer is unreachable, fails its own write and
///   no other. Delivery of a sent datagram is not confirmed; if the kernel learns that a connected peer does not
///   listen (ECONNREFUSED), `on_error` is called and the channel stays open.
/// - A read takes whole datagrams, up to the largest of the channel's
///   [`receive_sizes`](crate::ChannelOptions::receive_sizes): see [`Datagram::is_truncated`].
#[derive(Debug)]
pub struct Datagrams {
    socket: DriverSocket<()>,
    sockets: Arc<dyn DatagramSocketFactory>,
    /// Options to set when the socket is opened, or when it is registered again.
    options: Vec<SocketOption>,
    local: Option<Address>,
    peer: Option<Address>,
}

impl Datagrams {
    /// Creates a transport. The factory opens its socket when the transport is bound or connected.
    #[must_use]
    pub fn new(sockets: impl DatagramSocketFactory) -> Self {
        let (sockets, options) = (Arc::new(sockets), Vec::new());
        Self { socket: DriverSocket::Unopened(()), sockets, options, local: None, peer: None }
    }

    /// Opens a socket and attaches it. After a failure nothing has changed.
    fn open(
        &mut self,
        context: &TransportContext,
        at: Option<&Address>,
        to: Option<&Address>,
    ) -> io::Result<()> {
        let (io, local) = self.sockets.open(at, to, &self.options)?;
        let token = context.attach(io, Role::Datagram, Vec::new())?;
        self.options = Vec::new();
        // Peers cannot send to an unnamed Unix socket: it has no address.
        let local = Some(local).filter(|local| *local != UnixAddress::Unnamed.into());
        (self.local, self.peer) = (local, to.cloned());
        self.socket = DriverSocket::Attached(token);
        Ok(())
    }
}

impl Transport for Datagrams {
    fn name(&self) -> &'static str {
        self.sockets.kind().name()
    }

    fn reads(&self) -> Types {
        match self.sockets.kind().accepts_ancillary_messages() {
            true => Types::These(
                const { &[TypeTag::of::<Datagram>(), TypeTag::of::<AncillaryMessage>()] },
            ),
            false => Types::of::<Datagram>(),
        }
    }

    fn accepts(&self) -> Types {
        self.reads()
    }

    fn writes_stream(&self) -> bool {
        false
    }

    fn register(&mut self, context: &TransportContext) -> Result<bool, Error> {
        let options = &mut self.options;
        let attach = |io| context.attach(io, Role::Datagram, std::mem::take(options));
        Ok(self.socket.register(attach)?.is_some())
    }

    fn deregister(&mut self, context: &TransportContext) -> Result<(), Error> {
        self.socket.deregister(context)
    }

    fn bind(&mut self, context: &TransportContext, to: Address) -> Result<(), Error> {
        let DriverSocket::Unopened(()) = self.socket else {
            return Err(unsupported(self.name(), "be bound twice"));
        };
        Ok(self.open(context, Some(&to), None)?)
    }

    fn connect(
        &mut self,
        context: &TransportContext,
        to: &ConnectTarget,
    ) -> Result<ConnectProgress, Error> {
        let DriverSocket::Unopened(()) = self.socket else {
            return Err(unsupported(self.name(), "be connected after it was bound or connected"));
        };
        self.open(context, to.local.as_ref(), Some(&to.remote)).map_err(|error| {
            Error::new(ChannelError::Connect { address: to.remote.clone(), cause: error.into() })
        })?;
        Ok(ConnectProgress::Done)
    }

    fn set_option(
        &mut self,
        context: Option<&TransportContext>,
        option: SocketOption,
    ) -> Result<(), Error> {
        self.socket.set_option(context, option, |option| self.options.push(option))
    }

    fn set_read(&mut self, context: &TransportContext, plan: Option<ReadPlan>) {
        self.socket.set_read(context, plan);
    }

    fn on_driver_event(&mut self, _: &TransportContext, event: IoEvent) -> Option<TransportEvent> {
        Some(match event {
            IoEvent::Datagram(_, datagram) => TransportEvent::Read(Msg::from_box(datagram)),
            IoEvent::AncillaryMessage(_, ancillary) => {
                TransportEvent::Read(Msg::from_box(ancillary))
            }
            IoEvent::ReceiveFailed(_, error) => TransportEvent::Notice(Error::new(error)),
            IoEvent::Wrote(..) => TransportEvent::Wrote(0),
            IoEvent::Failed(_, error) => TransportEvent::Failed(Error::new(error)),
            _ => return None, // Not an event of datagrams.
        })
    }

    fn write(&mut self, context: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        let token = match &self.socket {
            DriverSocket::Attached(token) => *token,
            DriverSocket::Detached(_) => return Ok(Submit::Full), // Full until the socket is registered again.
            _ => return Err(io::ErrorKind::NotConnected.into()),
        };
        let submitted = {
            let mut messages = outbound.messages(MAX_DATAGRAM_BATCH).peekable();
            match messages.peek().and_then(|first| first.get::<AncillaryMessage>()) {
                Some(ancillary) => context.event_loop().send_ancillary(token, ancillary),
                None => {
                    let mut batch = messages.map_while(Msg::get::<Datagram>);
                    context.event_loop().send_datagrams(token, &mut batch)
                }
            }
        };
        match submitted {
            Ok(Submit::Done(sent)) => outbound.sent(sent),
            Ok(waiting) => return Ok(waiting),
            // The first datagram cannot be sent; the others may.
            Err(error) => outbound.fail_next(Error::new(error)),
        }
        Ok(Submit::Done(0))
    }

    fn close(&mut self, context: &TransportContext) -> Detach {
        self.socket.close(context)
    }

    fn local_address(&self) -> Option<Address> {
        self.local.clone()
    }

    fn peer_address(&self) -> Option<Address> {
        self.peer.clone()
    }

    fn peer_credentials(&self, context: &TransportContext) -> Result<Credentials, Error> {
        let to = "tell who its peer is before it is bound or connected";
        let token = self.socket.token().ok_or_else(|| unsupported(self.name(), to))?;
        Ok(context.event_loop().peer_credentials(token)?)
    }
}
