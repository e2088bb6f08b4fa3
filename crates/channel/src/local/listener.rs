//! The transport of a local server.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use waterwheel_executor::Error;

use super::connection::Connection;
use super::error::{LocalError, name_of};
use super::name_registry::LocalPort;
use super::read_rounds::{LocalReadOutcome, ReadRounds};
use crate::address::Address;
use crate::channel::error::ChannelError;
use crate::channel::handle::new_channel::NewChannel;
use crate::channel::options::InvalidOption;
use crate::channel::transport::{
    Outbound, Transport, TransportContext, TransportEvent, unsupported,
};
use crate::driver::{Detach, ReadPlan, SocketOption, Submit};
use crate::pipeline::{Msg, Types};

/// The default backlog: how many connections may wait to be accepted before further ones are refused. Netty's
/// default where the system has none; eight rounds of 16 accepts.
pub const DEFAULT_BACKLOG: usize = 128;

/// A server within the process. It reads [`NewChannel`]s, connected and without handlers: a handler of the
/// server gives them an initialiser and registers them, with any loop. Accepting is reading: it obeys
/// `auto_read` and `reads_per_round`.
pub struct LocalListener {
    state: ListenerState,
    backlog: usize,
    rounds: ReadRounds,
}

enum ListenerState {
    Unbound,
    Bound(Arc<LocalPort>),
    /// The connections that were not accepted are closed; their unread messages are dropped with the transport.
    Closed {
        _unaccepted: VecDeque<Connection>,
    },
}

impl LocalListener {
    /// Creates a server to be bound, to an [`Address::local`].
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: ListenerState::Unbound,
            backlog: DEFAULT_BACKLOG,
            rounds: ReadRounds::default(),
        }
    }

    /// Sets how many connections may wait for accept. Call this before the bind. Default: [`DEFAULT_BACKLOG`].
    ///
    /// # Errors
    /// A backlog of zero: no client could connect.
    pub fn backlog(mut self, backlog: usize) -> Result<Self, InvalidOption> {
        if backlog == 0 {
            return Err(InvalidOption::Backlog);
        }
        self.backlog = backlog;
        Ok(self)
    }

    /// Binds an unregistered server to a name. Connections wait in the backlog until the server is registered.
    ///
    /// # Errors
    /// The name is in use.
    pub fn listen(mut self, name: impl Into<Arc<str>>) -> Result<Self, LocalError> {
        let port = LocalPort::open(name.into(), self.backlog)?;
        self.close_end();
        self.state = ListenerState::Bound(port);
        Ok(self)
    }

    fn port(&self) -> Option<&Arc<LocalPort>> {
        match &self.state {
            ListenerState::Bound(port) => Some(port),
            _ => None,
        }
    }

    /// Frees the name and closes the backlog. Runs no user code.
    fn close_end(&mut self) {
        if let ListenerState::Bound(port) = &self.state {
            let mut unaccepted = port.close();
            unaccepted.iter_mut().for_each(Connection::close_end);
            self.state = ListenerState::Closed { _unaccepted: unaccepted };
        }
    }
}

impl Default for LocalListener {
    fn default() -> Self {
        Self::new()
    }
}

impl Transport for LocalListener {
    fn name(&self) -> &'static str {
        "local"
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
        let Some(port) = self.port() else { return Ok(false) };
        port.set_server(context.waker());
        context.wake();
        Ok(true)
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        self.rounds.abort_round();
        if let Some(port) = self.port() {
            port.set_server(None);
        }
        Ok(())
    }

    fn bind(&mut self, context: &TransportContext, to: Address) -> Result<(), Error> {
        let ListenerState::Unbound = self.state else {
            return Err(unsupported(self.name(), "be bound twice"));
        };
        let port = LocalPort::open(name_of(to)?, self.backlog)?;
        port.set_server(context.waker());
        self.state = ListenerState::Bound(port);
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
        self.rounds.set(context, plan);
    }

    fn write(&mut self, _: &TransportContext, _: &mut Outbound) -> io::Result<Submit> {
        Err(io::ErrorKind::Unsupported.into()) // Unreachable: the listener accepts no type of message.
    }

    fn next_event(&mut self, context: &TransportContext) -> Option<TransportEvent> {
        let ListenerState::Bound(port) = &self.state else { return None };
        self.rounds.next(|| match port.accept() {
            None => LocalReadOutcome::Empty,
            Some(connection) => {
                let new = NewChannel::new(connection);
                LocalReadOutcome::Message(Msg::new(match context.channel() {
                    Some(server) => new.parent(server),
                    None => new,
                }))
            }
        })
    }

    fn has_more(&self) -> bool {
        self.rounds.is_on() && self.port().is_some_and(|port| port.has_waiting())
    }

    fn is_listening(&self) -> bool {
        true
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        self.close_end();
        Detach::Done
    }

    fn local_address(&self) -> Option<Address> {
        self.port().map(|port| Address::Local(port.name().clone()))
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        self.close_end();
    }
}

impl fmt::Debug for LocalListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.port().map(|port| port.name())).finish()
    }
}
