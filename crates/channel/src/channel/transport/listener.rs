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

/// A server over the driver of its loop. What it reads are [`NewChannel`]s, connected and without
/// handlers: its own handler gives them an initialiser and registers them, with whichever loop.
/// Accepting obeys `auto_read` and `reads_per_round`, as any reading.
#[derive(Debug)]
pub struct Listener {
    socket: DriverSocket<Arc<dyn SocketFactory>>,
    kind: &'static SocketKind,
    /// To be set when there is a socket, or when it has come back to its loop.
    options: Vec<SocketOption>,
    local: Option<Address>,
}

impl Listener {
    /// A server that is to be bound, with a socket of this kind.
    #[must_use]
    pub fn new(sockets: impl SocketFactory) -> Self {
        let kind = sockets.kind();
        Self::with(DriverSocket::Unopened(Arc::new(sockets)), kind)
    }

    /// A server whose socket listens already, at this address. What it accepts is of
    /// the same kind.
    #[must_use]
    pub fn listening(kind: &'static SocketKind, io: Io, local: Option<Address>) -> Self {
        Self { local, ..Self::with(DriverSocket::Detached(io), kind) }
    }

    fn with(socket: DriverSocket<Arc<dyn SocketFactory>>, kind: &'static SocketKind) -> Self {
        Self { socket, kind, options: Vec::new(), local: None }
    }

    /// Where an accepted connection is bound: where the listener is, unless that is a wildcard.
    fn local_of_child(&self) -> Option<Address> {
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

    fn register(&mut self, up: &TransportContext) -> Result<bool, Error> {
        let options = &mut self.options;
        let attach = |io| up.attach(io, Role::Listener, std::mem::take(options));
        Ok(self.socket.register(attach)?.is_some())
    }

    fn deregister(&mut self, up: &TransportContext) -> Result<(), Error> {
        self.socket.deregister(up)
    }

    fn bind(&mut self, up: &TransportContext, to: Address) -> Result<(), Error> {
        let DriverSocket::Unopened(sockets) = &self.socket else {
            return Err(unsupported(self.name(), "be bound twice"));
        };
        let (io, local) = sockets.listen(&to, &self.options)?;
        self.local = Some(local);
        let token = up.attach(io, Role::Listener, Vec::new());
        let token = token.inspect_err(|_| self.local = None)?; // For another try.
        self.options = Vec::new();
        self.socket = DriverSocket::Attached(token);
        Ok(())
    }

    fn set_option(
        &mut self,
        up: Option<&TransportContext>,
        option: SocketOption,
    ) -> Result<(), Error> {
        self.socket.set_option(up, option, |option| self.options.push(option))
    }

    fn set_child_option(&mut self, option: SocketOption) -> Result<(), Error> {
        if let SocketOption::Backlog(_) = option {
            let (transport, option) = (self.name(), option.name());
            return Err(Error::new(ChannelError::UnsupportedOption { transport, option }));
        }
        self.options.push(option); // What a listener has, its connections have.
        Ok(())
    }

    fn set_read(&mut self, up: &TransportContext, plan: Option<ReadPlan>) {
        self.socket.set_read(up, plan);
    }

    fn on_driver_event(&mut self, up: &TransportContext, event: IoEvent) -> Option<TransportEvent> {
        Some(match event {
            IoEvent::Accepted(_, io, peer) => {
                let child = Stream::accepted(self.kind, io);
                let addresses = ChannelAddresses { local: self.local_of_child(), peer: Some(peer) };
                TransportEvent::Read(Msg::new(NewChannel::accepted(child, addresses, up.channel())))
            }
            IoEvent::AcceptFailed(_, error) => TransportEvent::ReadFailed(Error::new(error)),
            IoEvent::Failed(_, error) => TransportEvent::Failed(Error::new(error)),
            _ => return None, // Not of a listener.
        })
    }

    fn write(&mut self, _: &TransportContext, _: &mut Outbound) -> io::Result<Submit> {
        Err(io::ErrorKind::Unsupported.into()) // It accepts no type at all: nothing comes here.
    }

    fn is_listening(&self) -> bool {
        true
    }

    fn close(&mut self, up: &TransportContext) -> Detach {
        self.socket.close(up)
    }

    fn local_address(&self) -> Option<Address> {
        self.local.clone()
    }
}
