//! Transports over sockets that exist already.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, sockopt};
use waterwheel_channel::transport::{SocketFactory, SocketKind};
use waterwheel_channel::{Listener, Stream};

use crate::address::from_kernel;
use crate::error_context::context;
use crate::sockets::socket::Socket;
use crate::sockets::tcp::Tcp;
use crate::sockets::unix_streams::Unix;

/// Returns the transport of a server over a socket that listens already, of the standard library or any other,
/// for [`ServerBootstrap::listen_on`](waterwheel_channel::ServerBootstrap::listen_on). The socket is TCP or a Unix
/// stream.
///
/// The socket becomes non-blocking, also for other owners of the same open file description, and close-on-exec:
/// programs started by this process do not inherit it.
///
/// ```
/// use std::net::TcpListener;
/// use std::time::Duration;
/// use waterwheel_channel::{EventLoopGroup, ServerBootstrap};
/// use waterwheel_net::{Auto, Tcp, existing_listener};
///
/// let group = EventLoopGroup::builder(Auto).threads(1).build()?;
/// let listener = existing_listener(TcpListener::bind("127.0.0.1:0")?)?;
/// let server = ServerBootstrap::new(&group, Tcp).listen_on(listener).join()?;
/// assert!(server.is_active() && server.local_address().is_some());
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The descriptor is not a socket, not a stream socket, or does not listen.
pub fn existing_listener(socket: impl Into<OwnedFd>) -> io::Result<Listener> {
    let fd = socket.into();
    let kind = check_listening(fd.as_fd())?;
    let socket = adopt(fd)?;
    let local = socket.local_address();
    Ok(Listener::listening(kind, socket.into(), local))
}

/// Returns the transport of a connection that exists already, for
/// [`Bootstrap::adopt`](waterwheel_channel::Bootstrap::adopt). The socket flags change as in [`existing_listener`].
///
/// ```
/// use std::net::{TcpListener, TcpStream};
/// use std::time::Duration;
/// use waterwheel_channel::{Bootstrap, EventLoopGroup};
/// use waterwheel_net::{Auto, Tcp, existing_stream};
///
/// let group = EventLoopGroup::builder(Auto).threads(1).build()?;
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let stream = existing_stream(TcpStream::connect(listener.local_addr()?)?)?;
/// let channel = Bootstrap::new(&group, Tcp).adopt(stream).join()?;
/// assert_eq!(channel.peer_address(), Some(listener.local_addr()?.into()));
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The descriptor is not a socket, not a stream socket, or is not connected.
pub fn existing_stream(socket: impl Into<OwnedFd>) -> io::Result<Stream> {
    let fd = socket.into();
    let (kind, number) = (stream_kind(fd.as_fd())?, fd.as_raw_fd());
    let peer = rustix::net::getpeername(&fd).map_err(io::Error::from);
    let peer =
        peer.map_err(context(format!("the socket with descriptor {number} is not connected")))?;
    Ok(Stream::connected(adopt(fd)?.into(), peer.and_then(from_kernel)).of_kind(kind))
}

/// Returns the kind of a listening socket; an error if it does not listen.
pub(crate) fn check_listening(fd: BorrowedFd<'_>) -> io::Result<&'static SocketKind> {
    let kind = stream_kind(fd)?;
    match sockopt::socket_acceptconn(fd)? {
        true => Ok(kind),
        false => Err(invalid_input(format!(
            "the socket with descriptor {} does not listen",
            fd.as_raw_fd()
        ))),
    }
}

/// Returns the kind of a stream socket; an error if it is something else.
fn stream_kind(fd: BorrowedFd<'_>) -> io::Result<&'static SocketKind> {
    let number = fd.as_raw_fd();
    let kind = sockopt::socket_type(fd).map_err(io::Error::from);
    let kind = kind.map_err(context(format!("descriptor {number} is not a socket")))?;
    if kind != SocketType::STREAM {
        return Err(invalid_input(format!(
            "the socket with descriptor {number} is not a stream socket (SOCK_STREAM)"
        )));
    }
    match sockopt::socket_domain(fd)? {
        AddressFamily::INET | AddressFamily::INET6 => Ok(Tcp.kind()),
        AddressFamily::UNIX => Ok(Unix.kind()),
        other => Err(invalid_input(format!(
            "descriptor {number} has an unsupported address family: {other:?}"
        ))),
    }
}

/// Sets FD_CLOEXEC and O_NONBLOCK.
fn adopt(fd: OwnedFd) -> io::Result<Socket> {
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Socket::new(fd)
}

fn invalid_input(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
