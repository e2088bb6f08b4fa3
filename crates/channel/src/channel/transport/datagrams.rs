//! The transport of datagrams over the loop's driver.

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

/// Datagrams over the driver of its loop. What it reads and writes are [`Datagram`]s.
///
/// It is active when it is bound, or connected: then the kernel takes nothing but what comes from the peer,
/// and what is written without an address goes there.
///
/// - A datagram that cannot be sent, because it is too long or there is no way to its peer, fails its own
///   write and no other. What becomes of one that was sent nobody knows; of a peer that is known not to
///   listen a connected channel is told by `on_error`, and stays open.
/// - A read takes datagrams whole, up to the largest of the channel's
///   [`receive_sizes`](crate::ChannelOptions::receive_sizes): see [`Datagram::is_truncated`].
#[derive(Debug)]
pub struct Datagrams {
    socket: DriverSocket<()>,
    sockets: Arc<dyn DatagramSocketFactory>,
    /// To be set when there is a socket, or when it has come back to its loop.
    options: Vec<SocketOption>,
    local: Option<Address>,
    peer: Option<Address>,
}

impl Datagrams {
    /// Datagrams with a socket of this kind, that is to be bound or connected.
    #[must_use]
    pub fn new(sockets: impl DatagramSocketFactory) -> Self {
        let (sockets, options) = (Arc::new(sockets), Vec::new());
        Self { socket: DriverSocket::Unopened(()), sockets, options, local: None, peer: None }
    }

    /// Opens a socket and takes it in. After a failure all is as it was.
    fn open(
        &mut self,
        up: &TransportContext,
        at: Option<&Address>,
        to: Option<&Address>,
    ) -> io::Result<()> {
        let (io, local) = self.sockets.open(at, to, &self.options)?;
        let token = up.attach(io, Role::Datagram, Vec::new())?;
        self.options = Vec::new();
        // An address that nobody can send to is none.
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
        match self.sockets.kind().passes() {
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

    fn register(&mut self, up: &TransportContext) -> Result<bool, Error> {
        let options = &mut self.options;
        let attach = |io| up.attach(io, Role::Datagram, std::mem::take(options));
        Ok(self.socket.register(attach)?.is_some())
    }

    fn deregister(&mut self, up: &TransportContext) -> Result<(), Error> {
        self.socket.deregister(up)
    }

    fn bind(&mut self, up: &TransportContext, to: Address) -> Result<(), Error> {
        let DriverSocket::Unopened(()) = self.socket else {
            return Err(unsupported(self.name(), "be bound twice"));
        };
        Ok(self.open(up, Some(&to), None)?)
    }

    fn connect(
        &mut self,
        up: &TransportContext,
        to: &ConnectTarget,
    ) -> Result<ConnectProgress, Error> {
        let DriverSocket::Unopened(()) = self.socket else {
            return Err(unsupported(self.name(), "be connected after it was bound or connected"));
        };
        self.open(up, to.local.as_ref(), Some(&to.remote)).map_err(|error| {
            Error::new(ChannelError::Connect { address: to.remote.clone(), cause: error.into() })
        })?;
        Ok(ConnectProgress::Done)
    }

    fn set_option(
        &mut self,
        up: Option<&TransportContext>,
        option: SocketOption,
    ) -> Result<(), Error> {
        self.socket.set_option(up, option, |option| self.options.push(option))
    }

    fn set_read(&mut self, up: &TransportContext, plan: Option<ReadPlan>) {
        self.socket.set_read(up, plan);
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
            _ => return None, // Not of datagrams.
        })
    }

    fn write(&mut self, up: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        let token = match &self.socket {
            DriverSocket::Attached(token) => *token,
            DriverSocket::Detached(_) => return Ok(Submit::Full), // Until it comes back to its loop.
            _ => return Err(io::ErrorKind::NotConnected.into()),
        };
        let submitted = {
            let mut messages = outbound.messages(MAX_DATAGRAM_BATCH).peekable();
            match messages.peek().and_then(|first| first.get::<AncillaryMessage>()) {
                Some(ancillary) => up.event_loop().send_ancillary(token, ancillary),
                None => {
                    let mut batch = messages.map_while(Msg::get::<Datagram>);
                    up.event_loop().send_datagrams(token, &mut batch)
                }
            }
        };
        match submitted {
            Ok(Submit::Done(sent)) => outbound.sent(sent),
            Ok(waiting) => return Ok(waiting),
            // The first of them cannot be sent; the others may.
            Err(error) => outbound.fail_next(Error::new(error)),
        }
        Ok(Submit::Done(0))
    }

    fn close(&mut self, up: &TransportContext) -> Detach {
        self.socket.close(up)
    }

    fn local_address(&self) -> Option<Address> {
        self.local.clone()
    }

    fn peer_address(&self) -> Option<Address> {
        self.peer.clone()
    }

    fn peer_credentials(&self, up: &TransportContext) -> Result<Credentials, Error> {
        let to = "tell who its peer is before it is bound or connected";
        let token = self.socket.token().ok_or_else(|| unsupported(self.name(), to))?;
        Ok(up.event_loop().peer_credentials(token)?)
    }
}
