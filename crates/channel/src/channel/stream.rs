//! The transport of a stream of bytes over the loop's driver.

use std::io;

use waterwheel_executor::Error;

use super::address::{Address, Target};
use super::outbound::Outbound;
use super::transport::{Progress, Transport, TransportEvent, Upcalls, unsupported};
use crate::driver::{Detach, Io, IoEvent, ReadPlan, Role, Submit};
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::registrations::Registrant;
use crate::pipeline::Types;
use crate::token::Token;

/// A stream of bytes over the driver of its loop: a connected socket, or one that is to be connected.
#[derive(Debug)]
pub struct Stream {
    state: State,
    peer: Option<Address>,
}

#[derive(Debug)]
enum State {
    /// Not with its driver yet.
    Connected(Io),
    Unconnected(Io),
    Attached(Token),
    Gone,
}

impl Stream {
    /// A stream that is connected, to this peer if that is known.
    #[must_use]
    pub fn connected(io: Io, peer: Option<Address>) -> Self {
        Self { state: State::Connected(io), peer }
    }

    /// A stream that is to be connected.
    #[must_use]
    pub fn unconnected(io: Io) -> Self {
        Self { state: State::Unconnected(io), peer: None }
    }

    fn attach(&mut self, up: &Upcalls, io: Io, role: Role) -> Result<(), Error> {
        let token = up.event_loop().attach(io, role, Events { up: up.clone() })?;
        self.state = State::Attached(token);
        Ok(())
    }

    fn token(&self) -> Option<Token> {
        match self.state {
            State::Attached(token) => Some(token),
            _ => None,
        }
    }
}

impl Transport for Stream {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn reads(&self) -> Types {
        Types::of::<bytes::Bytes>()
    }

    fn accepts(&self) -> Types {
        Types::of::<bytes::Bytes>()
    }

    fn writes_stream(&self) -> bool {
        true
    }

    fn register(&mut self, up: &Upcalls) -> Result<bool, Error> {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Connected(io) => self.attach(up, io, Role::Stream).map(|()| true),
            other => {
                self.state = other;
                Ok(false)
            }
        }
    }

    fn deregister(&mut self, _: &Upcalls) -> Result<(), Error> {
        Err(unsupported(self.name(), "leave its driver without being closed"))
    }

    fn connect(&mut self, up: &Upcalls, to: Target) -> Result<Progress, Error> {
        let Address::Ip(remote) = to.remote else {
            return Err(unsupported(self.name(), "be connected to an address of another kind"));
        };
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Unconnected(io) => {
                self.attach(up, io, Role::Connecting(remote))?;
                self.peer = Some(remote.into());
                Ok(Progress::Pending)
            }
            other => {
                self.state = other;
                Err(unsupported(self.name(), "be connected twice"))
            }
        }
    }

    fn set_read(&mut self, up: &Upcalls, plan: Option<ReadPlan>) {
        if let Some(token) = self.token() {
            up.event_loop().set_read(token, plan);
        }
    }

    fn write(&mut self, up: &Upcalls, outbound: &mut Outbound) -> io::Result<Submit> {
        let token = self.token().ok_or(io::ErrorKind::NotConnected)?;
        if outbound.bytes().is_empty() {
            outbound.wrote(0); // Nothing but empty messages.
            return Ok(Submit::Done(0));
        }
        let submitted = up.event_loop().write(token, outbound.bytes())?;
        if let Submit::Done(n) = submitted {
            outbound.wrote(n);
        }
        Ok(submitted)
    }

    fn close(&mut self, up: &Upcalls) -> Detach {
        match std::mem::replace(&mut self.state, State::Gone) {
            // If the loop has let go of it already, that was all.
            State::Attached(token) if up.event_loop().detach(token) => Detach::Pending,
            _ => Detach::Done,
        }
    }

    fn peer_address(&self) -> Option<Address> {
        self.peer.clone()
    }
}

/// Hands the driver's events to the channel.
struct Events {
    up: Upcalls,
}

impl Registrant for Events {
    fn on_event(&mut self, _: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        self.up.event(match event {
            IoEvent::Read(_, bytes) => {
                self.up.read(bytes);
                return Ok(());
            }
            IoEvent::ReadComplete(_) => {
                self.up.read_complete();
                return Ok(());
            }
            IoEvent::Wrote(_, n) => TransportEvent::Wrote(n),
            IoEvent::Connected(_) => TransportEvent::Connected,
            IoEvent::Eof(_) => TransportEvent::Eof,
            IoEvent::Failed(_, error) => TransportEvent::Failed(Error::new(error)),
            IoEvent::Accepted(..) | IoEvent::Foreign(..) | IoEvent::Detached(_) => return Ok(()),
        });
        Ok(())
    }

    fn detaches_itself(&self) -> bool {
        self.up.channel().is_some()
    }

    fn on_detached(&mut self, _: &LocalLoop, cause: Option<Error>) {
        if let Some(cause) = cause {
            self.up.event(TransportEvent::Failed(cause));
        }
        self.up.event(TransportEvent::Closed);
    }
}
