//! The transport of a server over the loop's driver.

use std::io;
use std::sync::Arc;

use waterwheel_executor::Error;

use crate::address::Address;
use crate::channel::error::ChannelError;
use crate::channel::handle::new_channel::NewChannel;
use crate::channel::handle::shared_state::ChannelAddresses;
use crate::channel::transport::driver_socket::DriverSocket;
use crate::channel::transport::factories::{SocketFactory, SocketKind};
use crate::channel::transport::stream::Stream;
use crate::channel::transport::{Transport, TransportContext, TransportEvent, unsupported};
use crate::channel::writing::outbound::Outbound;
use crate::driver::{Detach, Io, IoEvent, ReadPlan, Role, SocketOption, Submit};
use crate::pipeline::{Msg, Types};

/// A listening socket over the driver of the loop. It reads [`NewChannel`]s, connected and without handlers: a
/// handler of the server gives them an initialiser and registers them, with any loop. Accepting is reading: it
/// obeys `auto_read` and `reads_per_round`.
#[derive(Debug)]
pub struct Listener {
    socket: DriverSocket<Arc<dyn SocketFactory>>,
    kind: &'static SocketKind,
    /// Options to set when the socket is opened, or when it is registered again.
    options: Vec<SocketOption>,
    local: Option<Address>,
}

impl Listener {
    /// Creates a listener. The factory opens its socket when the listener is bound.
    #[must_use]
    pub fn new(sockets: impl SocketFactory) -> Self {
        let kind = sockets.kind();
        Self::with(DriverSocket::Unopened(Arc::new(sockets)), kind)
    }

    /// Creates a listener from a socket that listens already, at this address. Accepted connections are of the
    /// same kind.
    #[must_use]
    pub fn listening(kind: &'static SocketKind, io: Io, local: Option<Address>) -> Self {
        Self { local, ..Self::with(DriverSocket::Detached(io), kind) }
    }

    fn with(socket: DriverSocket<Arc<dyn SocketFactory>>, kind: &'static SocketKind) -> Self {
        Self { socket, kind, options: Vec::new(), local: None }
    }

    /// Returns the local address of accepted connections: the listener's, unless that is a wildcard.
    fn child_local_address(&self) -> Option<Address> {
        self.local.clone().filter(|local| match local {
            Address::Ip(ip) => !ip.ip().is_unspecified(),
            _ => true,
        })
    }
}

impl Transport for Listener {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn reads(&self) -> Types {
        Types::of::<NewChannel>()
    }

    fn accepts(&self) -> Types {
        Types::NONE
    }

    fn writes_stream(&self) -> bool {
        false
    }

    fn register(&mut self, context: &TransportContext) -> Result<bool, Error> {
        let options = &mut self.options;
        let attach = |io| context.attach(io, Role::Listener, std::mem::take(options));
        Ok(self.socket.register(attach)?.is_some())
    }

    fn deregister(&mut self, context: &TransportContext) -> Result<(), Error> {
        self.socket.deregister(context)
    }

    fn bind(&mut self, context: &TransportContext, to: Address) -> Result<(), Error> {
        let DriverSocket::Unopened(sockets) = &self.socket else {
            return Err(unsupported(self.name(), "be bound twice"));
        };
        let (io, local) = sockets.listen(&to, &self.options)?;
        self.local = Some(local);
        let token = context.attach(io, Role::Listener, Vec::new());
        let token = token.inspect_err(|_| self.local = None)?; // The bind may be repeated.
        self.options = Vec::new();
        self.socket = DriverSocket::Attached(token);
        Ok(())
    }

    fn set_option(
        &mut self,
        context: Option<&TransportContext>,
        option: SocketOption,
    ) -> Result<(), Error> {
        self.socket.set_option(context, option, |option| self.options.push(option))
    }

    fn set_child_option(&mut self, option: SocketOption) -> Result<(), Error> {
        if let SocketOption::Backlog(_) = option {
            let (transport, option) = (self.name(), option.name());
            return Err(Error::new(ChannelError::UnsupportedOption { transport, option }));
        }
        self.options.push(option); // Connections inherit the options of their listener.
        Ok(())
    }

    fn set_read(&mut self, context: &TransportContext, plan: Option<ReadPlan>) {
        self.socket.set_read(context, plan);
    }

    fn on_driver_event(
        &mut self,
        context: &TransportContext,
        event: IoEvent,
    ) -> Option<TransportEvent> {
        Some(match event {
            IoEvent::Accepted(_, io, peer) => {
                let child = Stream::accepted(self.kind, io);
                let addresses =
                    ChannelAddresses { local: self.child_local_address(), peer: Some(peer) };
                TransportEvent::Read(Msg::new(NewChannel::accepted(
                    child,
                    addresses,
                    context.channel(),
                )))
            }
            IoEvent::AcceptFailed(_, error) => TransportEvent::ReadFailed(Error::new(error)),
            IoEvent::Failed(_, error) => TransportEvent::Failed(Error::new(error)),
            _ => return None, // Not an event of a listener.
        })
    }

    fn write(&mut self, _: &TransportContext, _: &mut Outbound) -> io::Result<Submit> {
        Err(io::ErrorKind::Unsupported.into()) // Unreachable: the listener accepts no type of message.
    }

    fn is_listening(&self) -> bool {
        true
    }

    fn close(&mut self, context: &TransportContext) -> Detach {
        self.socket.close(context)
    }

    fn local_address(&self) -> Option<Address> {
        self.local.clone()
    }
}
