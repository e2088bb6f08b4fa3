//! The transport for a stream of bytes over the loop's driver.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;

use bytes::Bytes;
use waterwheel_executor::Error;

use crate::address::{Address, ConnectTarget};
use crate::base::token::Token;
use crate::channel::error::ChannelError;
use crate::channel::transport::driver_socket::DriverSocket;
use crate::channel::transport::factories::{SocketFactory, SocketKind};
use crate::channel::transport::{
    ANCILLARY_STREAM_TYPES, ConnectProgress, DetachOutcome, STREAM_TYPES, Transport,
    TransportContext, TransportEvent, unsupported,
};
use crate::channel::writing::outbound::Outbound;
use crate::driver::{Detach, Io, IoEvent, ReadPlan, Role, SocketOption, Submit};
use crate::payload::{AncillaryMessage, Credentials};
use crate::pipeline::{Msg, TypeTag, Types};

/// The kind of sockets that were connected elsewhere: nothing else is known about them.
static CONNECTED_SOCKET: SocketKind = SocketKind::new("stream");

/// A stream of bytes over the driver of the loop: a connected socket, or one to be connected.
#[derive(Debug)]
pub struct Stream {
    socket: DriverSocket<DialState>,
    kind: &'static SocketKind,
    /// Settings from before the channel is active; the channel keeps them from then on. Absent for a stream
    /// that a listener has accepted.
    early: Option<Box<EarlySettings>>,
}

/// Settings of a stream from before it is connected and registered.
#[derive(Debug, Default)]
struct EarlySettings {
    peer: Option<Address>,
    /// Options to set once there is a socket.
    options: Vec<SocketOption>,
}

/// The state of a stream without a connected socket. Each attempt to connect opens a new socket.
#[derive(Debug)]
enum DialState {
    Idle(Arc<dyn SocketFactory>),
    /// The driver is connecting the socket.
    Connecting(Token, Arc<dyn SocketFactory>),
}

impl Stream {
    /// Creates a stream to be connected, with sockets of this factory.
    #[must_use]
    pub fn new(sockets: impl SocketFactory) -> Self {
        let kind = sockets.kind();
        Self::with(DriverSocket::Unopened(DialState::Idle(Arc::new(sockets))), kind)
    }

    /// Creates a stream from a connected socket.
    #[must_use]
    pub fn connected(io: Io, peer: Option<Address>) -> Self {
        let early =
            peer.is_some().then(|| Box::new(EarlySettings { peer, ..EarlySettings::default() }));
        Self { early, ..Self::with(DriverSocket::Detached(io), &CONNECTED_SOCKET) }
    }

    /// Sets the kind of the socket.
    #[must_use]
    pub fn of_kind(self, kind: &'static SocketKind) -> Self {
        Self { kind, ..self }
    }

    /// Creates a stream that a listener has accepted. The new channel keeps its addresses.
    pub(in crate::channel) fn accepted(kind: &'static SocketKind, io: Io) -> Self {
        Self::with(DriverSocket::Detached(io), kind)
    }

    fn with(socket: DriverSocket<DialState>, kind: &'static SocketKind) -> Self {
        Self { socket, kind, early: None }
    }

    /// Converts an error of the socket. The error of an attempt to connect names the address.
    fn socket_error(&self, error: io::Error) -> Error {
        match (&self.socket, self.early.as_deref()) {
            (DriverSocket::Unopened(_), Some(EarlySettings { peer: Some(remote), .. })) => {
                cannot_connect(remote, error)
            }
            _ => Error::new(error),
        }
    }

    fn early(&mut self) -> &mut EarlySettings {
        self.early.get_or_insert_default()
    }

    fn attached_token(&self, to: &'static str) -> Result<Token, Error> {
        self.socket.token().ok_or_else(|| unsupported(self.name(), to))
    }
}

impl Transport for Stream {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn reads(&self) -> Types {
        match self.kind.accepts_ancillary_messages() {
            true => {
                Types::These(const { &[TypeTag::of::<Bytes>(), TypeTag::of::<AncillaryMessage>()] })
            }
            false => Types::of::<Bytes>(),
        }
    }

    fn accepts(&self) -> Types {
        if self.kind.accepts_ancillary_messages() { ANCILLARY_STREAM_TYPES } else { STREAM_TYPES }
    }

    fn writes_stream(&self) -> bool {
        true
    }

    fn register(&mut self, context: &TransportContext) -> Result<bool, Error> {
        let early = &mut self.early;
        let attach = |io| context.attach(io, Role::Stream, take_options(early));
        Ok(self.socket.register(attach)?.is_some())
    }

    fn deregister(&mut self, context: &TransportContext) -> Result<(), Error> {
        if let DriverSocket::Unopened(DialState::Connecting(..)) = self.socket {
            return Err(unsupported(self.name(), "leave its loop while it is being connected"));
        }
        self.socket.deregister(context)
    }

    fn connect(
        &mut self,
        context: &TransportContext,
        to: &ConnectTarget,
    ) -> Result<ConnectProgress, Error> {
        let DriverSocket::Unopened(DialState::Idle(sockets)) = &self.socket else {
            return Err(unsupported(self.name(), "be connected twice"));
        };
        let sockets = sockets.clone();
        let attach = |io| context.attach(io, Role::Connecting(to.remote.clone()), Vec::new());
        let token = match sockets.dial(to, &self.early().options).and_then(attach) {
            Ok(token) => token,
            // EAGAIN: the backlog of a Unix listener is full.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(ConnectProgress::Later);
            }
            Err(error) => return Err(cannot_connect(&to.remote, error)),
        };
        self.socket = DriverSocket::Unopened(DialState::Connecting(token, sockets));
        self.early().peer = Some(to.remote.clone());
        Ok(ConnectProgress::Pending)
    }

    fn on_connected(&mut self, _: &TransportContext) {
        if let DriverSocket::Unopened(DialState::Connecting(token, _)) = self.socket {
            self.socket = DriverSocket::Attached(token);
            take_options(&mut self.early);
        }
    }

    fn abandon_connect(&mut self, context: &TransportContext) {
        if let DriverSocket::Unopened(dial) = &mut self.socket
            && let DialState::Connecting(token, sockets) = dial
        {
            context.event_loop().detach(*token);
            *dial = DialState::Idle(sockets.clone());
            self.early().peer = None;
        }
    }

    fn set_option(
        &mut self,
        context: Option<&TransportContext>,
        option: SocketOption,
    ) -> Result<(), Error> {
        if let (DriverSocket::Unopened(DialState::Connecting(token, _)), Some(context)) =
            (&self.socket, context)
        {
            context.event_loop().set_option(*token, option)?; // Kept for the next attempt too.
        }
        let early = &mut self.early;
        let keep = |option| early.get_or_insert_default().options.push(option);
        self.socket.set_option(context, option, keep)
    }

    fn set_read(&mut self, context: &TransportContext, plan: Option<ReadPlan>) {
        self.socket.set_read(context, plan);
    }

    fn on_driver_event(&mut self, _: &TransportContext, event: IoEvent) -> Option<TransportEvent> {
        Some(match event {
            IoEvent::Connected(_) => TransportEvent::Connected,
            IoEvent::AncillaryMessage(_, ancillary) => {
                TransportEvent::Read(Msg::from_box(ancillary))
            }
            IoEvent::Wrote(_, n) => TransportEvent::Wrote(n),
            IoEvent::Eof(_) => TransportEvent::Eof,
            IoEvent::PeerFinished(_) => TransportEvent::PeerFinished,
            IoEvent::Failed(_, error) => TransportEvent::Failed(self.socket_error(error)),
            _ => return None, // Not an event of a stream.
        })
    }

    fn on_driver_detached(&mut self, token: Token, cause: Option<Error>) -> DetachOutcome {
        match &self.socket {
            DriverSocket::Unopened(DialState::Connecting(current, _)) if *current == token => {
                match cause {
                    Some(cause) => DetachOutcome::Failed(cause),
                    None => DetachOutcome::Stale,
                }
            }
            socket if socket.has_token(token) => DetachOutcome::Closed(cause),
            _ => DetachOutcome::Stale, // The socket of an attempt that was given up.
        }
    }

    fn stream_token(&self) -> Option<Token> {
        self.socket.token()
    }

    fn write(&mut self, context: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        let token = match &self.socket {
            DriverSocket::Attached(token) => *token,
            DriverSocket::Detached(_) => return Ok(Submit::Full), // Full until the socket is registered again.
            _ => return Err(io::ErrorKind::NotConnected.into()),
        };
        let submitted = if !outbound.bytes().is_empty() {
            // Reached only if another transport wraps this stream and returns no token.
            context.event_loop().write(token, outbound.bytes())
        } else if let Some(file) = outbound.file() {
            context.event_loop().send_file(token, file)
        } else if let Some(ancillary) = outbound.ancillary() {
            match context.event_loop().send_ancillary(token, ancillary) {
                // EINVAL concerns this message alone; the stream is intact.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    outbound.fail_next(Error::new(error));
                    return Ok(Submit::Done(0));
                }
                submitted => submitted,
            }
        } else {
            Ok(Submit::Done(0)) // Only empty messages were queued.
        };
        if let Ok(Submit::Done(n)) = submitted {
            outbound.wrote(n);
        }
        submitted
    }

    fn shutdown(&mut self, context: &TransportContext, how: Shutdown) -> Result<(), Error> {
        let token = self.attached_token("be shut down before it is connected and registered")?;
        Ok(context.event_loop().shutdown(token, how)?)
    }

    fn close(&mut self, context: &TransportContext) -> Detach {
        if let DriverSocket::Unopened(dial) = &mut self.socket {
            if let DialState::Connecting(token, sockets) = dial {
                context.event_loop().detach(*token); // An attempt to connect is not waited for.
                *dial = DialState::Idle(sockets.clone());
            }
            return Detach::Done;
        }
        self.socket.close(context)
    }

    fn peer_address(&self) -> Option<Address> {
        self.early.as_ref()?.peer.clone()
    }

    fn peer_credentials(&self, context: &TransportContext) -> Result<Credentials, Error> {
        let token =
            self.attached_token("tell who its peer is before it is connected and registered")?;
        Ok(context.event_loop().peer_credentials(token)?)
    }
}

fn take_options(early: &mut Option<Box<EarlySettings>>) -> Vec<SocketOption> {
    early.as_mut().map(|early| std::mem::take(&mut early.options)).unwrap_or_default()
}

fn cannot_connect(remote: &Address, error: io::Error) -> Error {
    Error::new(ChannelError::Connect { address: remote.clone(), cause: Error::new(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::Slab;

    #[test]
    fn c12_the_detach_of_an_abandoned_attempt_does_not_affect_the_later_connection() {
        let mut slab = Slab::default();
        let (given_up, own) = (slab.insert(()), slab.insert(()));
        let broken = || Some(Error::new(io::Error::from(io::ErrorKind::Other)));
        for socket in [DriverSocket::Attached(own), DriverSocket::Closing(own)] {
            let mut stream = Stream::with(socket, &CONNECTED_SOCKET);
            for cause in [None, broken()] {
                let told = stream.on_driver_detached(given_up, cause);
                assert!(matches!(told, DetachOutcome::Stale), "{told:?}");
            }
            let told = stream.on_driver_detached(own, broken());
            assert!(matches!(told, DetachOutcome::Closed(Some(_))), "{told:?}");
        }
    }
}
