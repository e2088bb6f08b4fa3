//! The transport of a stream of bytes over the loop's driver.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;

use bytes::Bytes;
use waterwheel_executor::Error;

use super::error::ChannelError;
use super::outbound::Outbound;
use super::socket::Socket;
use super::sockets::{SocketKind, Sockets};
use super::transport::{
    Detached, PASSING_STREAM_TYPES, Progress, STREAM_TYPES, Transport, TransportEvent, Upcalls,
    unsupported,
};
use crate::address::{Address, Target};
use crate::driver::{Detach, Io, IoEvent, ReadPlan, Role, SocketOption, Submit};
use crate::payload::{Credentials, Parcel};
use crate::pipeline::{Msg, TypeTag, Types};
use crate::token::Token;

/// What is known of a socket that came connected: nothing.
static CONNECTED: SocketKind = SocketKind::new("stream");

/// A stream of bytes over the driver of its loop: a connected socket, or one that is to be connected.
#[derive(Debug)]
pub struct Stream {
    socket: Socket<Dial>,
    kind: &'static SocketKind,
    /// What is known before the channel is active, and kept by the channel from then on. A stream that a listener
    /// has accepted has none of it, and no box.
    early: Option<Box<Early>>,
}

/// What is known of a stream before it is connected and registered.
#[derive(Debug, Default)]
struct Early {
    peer: Option<Address>,
    /// To be set when there is a socket to set them on.
    options: Vec<SocketOption>,
}

/// How a stream gets its socket: each attempt to connect has its own.
#[derive(Debug)]
enum Dial {
    Idle(Arc<dyn Sockets>),
    /// The driver is at it.
    UnderWay(Token, Arc<dyn Sockets>),
}

impl Stream {
    /// A stream that is to be connected, with sockets of this kind.
    #[must_use]
    pub fn new(sockets: impl Sockets) -> Self {
        let kind = sockets.kind();
        Self::with(Socket::Unopened(Dial::Idle(Arc::new(sockets))), kind)
    }

    /// A stream that is connected, to this peer if that is known.
    #[must_use]
    pub fn connected(io: Io, peer: Option<Address>) -> Self {
        let early = peer.is_some().then(|| Box::new(Early { peer, ..Early::default() }));
        Self { early, ..Self::with(Socket::Detached(io), &CONNECTED) }
    }

    /// The same, of a kind that is known.
    #[must_use]
    pub fn of_kind(self, kind: &'static SocketKind) -> Self {
        Self { kind, ..self }
    }

    /// A stream that a listener has accepted. The new channel has its addresses.
    pub(super) fn accepted(kind: &'static SocketKind, io: Io) -> Self {
        Self::with(Socket::Detached(io), kind)
    }

    fn with(socket: Socket<Dial>, kind: &'static SocketKind) -> Self {
        Self { socket, kind, early: None }
    }

    /// What an error of the socket means: that of an attempt to connect names the address.
    fn broken(&self, error: io::Error) -> Error {
        match (&self.socket, self.early.as_deref()) {
            (Socket::Unopened(_), Some(Early { peer: Some(remote), .. })) => {
                cannot_connect(remote, error)
            }
            _ => Error::new(error),
        }
    }

    fn early(&mut self) -> &mut Early {
        self.early.get_or_insert_default()
    }

    fn attached(&self, to: &'static str) -> Result<Token, Error> {
        self.socket.token().ok_or_else(|| unsupported(self.name(), to))
    }
}

impl Transport for Stream {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn reads(&self) -> Types {
        match self.kind.passes() {
            true => Types::These(const { &[TypeTag::of::<Bytes>(), TypeTag::of::<Parcel>()] }),
            false => Types::of::<Bytes>(),
        }
    }

    fn accepts(&self) -> Types {
        if self.kind.passes() { PASSING_STREAM_TYPES } else { STREAM_TYPES }
    }

    fn writes_stream(&self) -> bool {
        true
    }

    fn register(&mut self, up: &Upcalls) -> Result<bool, Error> {
        let early = &mut self.early;
        let attach = |io| up.attach(io, Role::Stream, take_options(early));
        Ok(self.socket.register(attach)?.is_some())
    }

    fn deregister(&mut self, up: &Upcalls) -> Result<(), Error> {
        if let Socket::Unopened(Dial::UnderWay(..)) = self.socket {
            return Err(unsupported(self.name(), "leave its loop while it is being connected"));
        }
        self.socket.deregister(up)
    }

    fn connect(&mut self, up: &Upcalls, to: &Target) -> Result<Progress, Error> {
        let Socket::Unopened(Dial::Idle(sockets)) = &self.socket else {
            return Err(unsupported(self.name(), "be connected twice"));
        };
        let sockets = sockets.clone();
        let attach = |io| up.attach(io, Role::Connecting(to.remote.clone()), Vec::new());
        let token = match sockets.dial(to, &self.early().options).and_then(attach) {
            Ok(token) => token,
            // So says a Unix socket whose listener has as many waiting as it wants.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Later),
            Err(error) => return Err(cannot_connect(&to.remote, error)),
        };
        self.socket = Socket::Unopened(Dial::UnderWay(token, sockets));
        self.early().peer = Some(to.remote.clone());
        Ok(Progress::Pending)
    }

    fn connected(&mut self, _: &Upcalls) {
        if let Socket::Unopened(Dial::UnderWay(token, _)) = self.socket {
            self.socket = Socket::Attached(token);
            take_options(&mut self.early);
        }
    }

    fn abandon_connect(&mut self, up: &Upcalls) {
        if let Socket::Unopened(dial) = &mut self.socket
            && let Dial::UnderWay(token, sockets) = dial
        {
            up.event_loop().detach(*token);
            *dial = Dial::Idle(sockets.clone());
            self.early().peer = None;
        }
    }

    fn set_option(&mut self, up: Option<&Upcalls>, option: SocketOption) -> Result<(), Error> {
        if let (Socket::Unopened(Dial::UnderWay(token, _)), Some(up)) = (&self.socket, up) {
            up.event_loop().set_option(*token, option)?; // And that of the next attempt, if there is one.
        }
        let early = &mut self.early;
        let keep = |option| early.get_or_insert_default().options.push(option);
        self.socket.set_option(up, option, keep)
    }

    fn set_read(&mut self, up: &Upcalls, plan: Option<ReadPlan>) {
        self.socket.set_read(up, plan);
    }

    fn on_driver_event(&mut self, _: &Upcalls, event: IoEvent) -> Option<TransportEvent> {
        Some(match event {
            IoEvent::Connected(_) => TransportEvent::Connected,
            IoEvent::Parcel(_, parcel) => TransportEvent::Read(Msg::from_box(parcel)),
            IoEvent::Wrote(_, n) => TransportEvent::Wrote(n),
            IoEvent::Eof(_) => TransportEvent::Eof,
            IoEvent::PeerFinished(_) => TransportEvent::PeerFinished,
            IoEvent::Failed(_, error) => TransportEvent::Failed(self.broken(error)),
            _ => return None, // Not of a stream.
        })
    }

    fn on_driver_detached(&mut self, token: Token, cause: Option<Error>) -> Detached {
        match &self.socket {
            Socket::Unopened(Dial::UnderWay(current, _)) if *current == token => match cause {
                Some(cause) => Detached::Failed(cause),
                None => Detached::Stale,
            },
            socket if socket.is_known_by(token) => Detached::Closed(cause),
            _ => Detached::Stale, // Of an attempt that was given up.
        }
    }

    fn stream_token(&self) -> Option<Token> {
        self.socket.token()
    }

    fn write(&mut self, up: &Upcalls, outbound: &mut Outbound) -> io::Result<Submit> {
        let token = match &self.socket {
            Socket::Attached(token) => *token,
            Socket::Detached(_) => return Ok(Submit::Full), // Until it comes back to its loop.
            _ => return Err(io::ErrorKind::NotConnected.into()),
        };
        let submitted = if !outbound.bytes().is_empty() {
            up.event_loop().write(token, outbound.bytes()) // Of a transport around this one, which names no token.
        } else if let Some(file) = outbound.file() {
            up.event_loop().send_file(token, file)
        } else if let Some(parcel) = outbound.parcel() {
            match up.event_loop().send_parcel(token, parcel) {
                // It is about this one, and the stream is as it was.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    outbound.fail_next(Error::new(error));
                    return Ok(Submit::Done(0));
                }
                submitted => submitted,
            }
        } else {
            Ok(Submit::Done(0)) // Nothing but empty messages.
        };
        if let Ok(Submit::Done(n)) = submitted {
            outbound.wrote(n);
        }
        submitted
    }

    fn shutdown(&mut self, up: &Upcalls, how: Shutdown) -> Result<(), Error> {
        let token = self.attached("be shut down before it is connected and registered")?;
        Ok(up.event_loop().shutdown(token, how)?)
    }

    fn close(&mut self, up: &Upcalls) -> Detach {
        if let Socket::Unopened(dial) = &mut self.socket {
            if let Dial::UnderWay(token, sockets) = dial {
                up.event_loop().detach(*token); // Nothing of an attempt is worth waiting for.
                *dial = Dial::Idle(sockets.clone());
            }
            return Detach::Done;
        }
        self.socket.close(up)
    }

    fn peer_address(&self) -> Option<Address> {
        self.early.as_ref()?.peer.clone()
    }

    fn peer_credentials(&self, up: &Upcalls) -> Result<Credentials, Error> {
        let token = self.attached("tell who its peer is before it is connected and registered")?;
        Ok(up.event_loop().peer_credentials(token)?)
    }
}

fn take_options(early: &mut Option<Box<Early>>) -> Vec<SocketOption> {
    early.as_mut().map(|early| std::mem::take(&mut early.options)).unwrap_or_default()
}

fn cannot_connect(remote: &Address, error: io::Error) -> Error {
    Error::new(ChannelError::Connect { address: remote.clone(), cause: Error::new(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Slab;

    #[test]
    fn c12_the_end_of_an_attempt_that_was_given_up_says_nothing_of_the_connection_made_since() {
        let mut slab = Slab::default();
        let (given_up, own) = (slab.insert(()), slab.insert(()));
        let broken = || Some(Error::new(io::Error::from(io::ErrorKind::Other)));
        for socket in [Socket::Attached(own), Socket::Closing(own)] {
            let mut stream = Stream::with(socket, &CONNECTED);
            for cause in [None, broken()] {
                let told = stream.on_driver_detached(given_up, cause);
                assert!(matches!(told, Detached::Stale), "{told:?}");
            }
            let told = stream.on_driver_detached(own, broken());
            assert!(matches!(told, Detached::Closed(Some(_))), "{told:?}");
        }
    }
}
