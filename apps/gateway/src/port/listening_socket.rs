//! The listening socket: bound here, inherited from the service manager, or handed over by the process before this one.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{getsockname, listen};
use waterwheel::channel::Listener;
use waterwheel::net::{Inherited, existing_listener};

/// The number of connections that may wait to be accepted: the kernel's default limit (somaxconn). A reconnect storm fills it.
const BACKLOG: i32 = 4096;

/// A socket that listens. The descriptor stays with the gateway for as long as the process runs: a new process that takes over
/// gets it, and no client is refused meanwhile.
#[derive(Debug)]
pub struct ListeningSocket {
    fd: OwnedFd,
    origin: SocketOrigin,
}

/// Where a listening socket comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOrigin {
    /// The gateway has bound it.
    Bound,
    /// The program that started the gateway has bound it (LISTEN_FDS).
    Inherited,
    /// The process before this one has handed it over.
    HandedOver,
}

impl ListeningSocket {
    /// Binds a socket, at the first address of the name that can be bound.
    ///
    /// # Errors
    /// The name has no address, or none can be bound.
    pub fn bind(host: &str, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((host, port))?;
        // Once more, because the standard library asks for 128.
        listen(&listener, BACKLOG)?;
        Ok(Self { fd: listener.into(), origin: SocketOrigin::Bound })
    }

    /// Takes a socket that the service manager has passed.
    #[must_use]
    pub fn inherited(socket: Inherited) -> Self {
        Self { fd: socket.into(), origin: SocketOrigin::Inherited }
    }

    /// Takes a socket that the process before this one has handed over.
    #[must_use]
    pub fn handed_over(fd: OwnedFd) -> Self {
        Self { fd, origin: SocketOrigin::HandedOver }
    }

    /// Returns where the socket comes from.
    #[must_use]
    pub fn origin(&self) -> SocketOrigin {
        self.origin
    }

    /// Returns the address at which the socket listens; `None` if it is a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(getsockname(&self.fd).ok()?).ok()
    }

    /// Returns a transport over a descriptor of its own: closing it leaves this socket open.
    ///
    /// Connections send at once (TCP_NODELAY, which they inherit), wherever the socket comes from: a publication that waits for
    /// the acknowledgement of the one before it is many milliseconds late.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated, or does not listen.
    pub fn transport(&self) -> io::Result<Listener> {
        if self.address().is_some() {
            set_tcp_nodelay(&self.fd, true)?;
        }
        existing_listener(self.fd.try_clone()?)
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Display for ListeningSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Some(address) => address.fmt(f),
            None => f.write_str("a Unix socket"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn g01_connections_send_at_once_wherever_their_socket_comes_from() {
        let bound = ListeningSocket::bind("127.0.0.1", 0).unwrap();
        let handed_over =
            ListeningSocket::handed_over(TcpListener::bind("127.0.0.1:0").unwrap().into());
        for socket in [bound, handed_over] {
            let _transport = socket.transport().unwrap();
            let client = TcpStream::connect(socket.address().unwrap()).unwrap();
            let listener = TcpListener::from(socket.fd.try_clone().unwrap());
            listener.set_nonblocking(false).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
            assert!(accepted.nodelay().unwrap(), "{socket}: TCP_NODELAY is off");
        }
    }
}
