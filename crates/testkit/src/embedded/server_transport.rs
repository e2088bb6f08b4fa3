//! The transport of a server in an embedded network.

use std::io;
use std::sync::Arc;

use waterwheel_channel::driver::{Detach, ReadPlan, SocketOption, Submit};
use waterwheel_channel::local::DEFAULT_BACKLOG;
use waterwheel_channel::transport::{Outbound, Transport, TransportContext, TransportEvent};
use waterwheel_channel::{Address, ChannelError, InvalidOption, Msg, NewChannel, Types};
use waterwheel_executor::Error;
use waterwheel_executor::engine::drop_in_turn;

use super::network::{EmbeddedNetwork, name_of};
use super::wire::Wire;

/// A server's transport: its wire queues channels to be accepted.
pub(super) struct ServerTransport {
    wire: Wire,
    network: EmbeddedNetwork,
    backlog: usize,
    /// The name of the server; `None` until it is bound.
    name: Option<Arc<str>>,
}

impl ServerTransport {
    pub(super) fn new(network: EmbeddedNetwork) -> Self {
        Self { wire: Wire::default(), network, backlog: DEFAULT_BACKLOG, name: None }
    }

    /// Unbinds the name and drops the channels that were not accepted.
    fn close_wire(&self) {
        if self.wire.close()
            && let Some(name) = &self.name
        {
            self.network.remove(name);
            self.wire.take_unread().into_iter().for_each(drop_in_turn);
        }
    }
}

impl Drop for ServerTransport {
    fn drop(&mut self) {
        self.close_wire();
    }
}

impl Transport for ServerTransport {
    fn name(&self) -> &'static str {
        "embedded"
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
        self.wire.attach(context);
        Ok(self.name.is_some())
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        self.wire.detach();
        Ok(())
    }

    fn bind(&mut self, _: &TransportContext, to: Address) -> Result<(), Error> {
        if self.name.is_some() {
            let (transport, operation) = (self.name(), "be bound twice");
            return Err(Error::new(ChannelError::Unsupported { transport, operation }));
        }
        let name = name_of(&to)?;
        self.network.insert(&name, &self.wire, self.backlog)?;
        self.name = Some(name);
        Ok(())
    }

    fn set_option(
        &mut self,
        _: Option<&TransportContext>,
        option: SocketOption,
    ) -> Result<(), Error> {
        match option {
            SocketOption::Backlog(backlog) if backlog > 0 => self.backlog = backlog as usize,
            SocketOption::Backlog(_) => return Err(Error::new(InvalidOption::Backlog)),
            other => {
                let (transport, option) = (self.name(), other.name());
                return Err(Error::new(ChannelError::UnsupportedOption { transport, option }));
            }
        }
        Ok(())
    }

    fn set_read(&mut self, context: &TransportContext, plan: Option<ReadPlan>) {
        self.wire.set_read(context, plan);
    }

    fn write(&mut self, _: &TransportContext, _: &mut Outbound) -> io::Result<Submit> {
        Err(io::ErrorKind::Unsupported.into()) // A server accepts no message type, so no write arrives here.
    }

    fn next_event(&mut self, context: &TransportContext) -> Option<TransportEvent> {
        Some(match self.wire.next_event()? {
            TransportEvent::Read(msg) => TransportEvent::Read(with_parent(msg, context)),
            other => other,
        })
    }

    fn has_more(&self) -> bool {
        self.wire.has_more()
    }

    fn is_listening(&self) -> bool {
        true
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        self.close_wire();
        Detach::Done
    }

    fn local_address(&self) -> Option<Address> {
        self.name.clone().map(Address::Local)
    }
}

fn with_parent(accepted: Msg, context: &TransportContext) -> Msg {
    match (accepted.take::<NewChannel>(), context.channel()) {
        (Ok(new), Some(server)) => Msg::new(new.parent(server)),
        (Ok(new), None) => Msg::new(new),
        (Err(other), _) => other,
    }
}
