//! Unix stream sockets: the transport that bootstraps make their channels with.

use std::io;

use socket2::{Domain, Type};
use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{
    ServerTransportFactory, SocketFactory, SocketKind, Transport, TransportFactory,
};
use waterwheel_channel::{Address, ConnectTarget, Listener, Stream};

use crate::address::{expect_unix, expect_unix_peer};
use crate::error_context::context;
use crate::sockets::socket::Socket;

/// The default number of connections that may wait to be accepted: the kernel's default limit (somaxconn).
const DEFAULT_BACKLOG: u32 = 4096;

/// Streams between processes of one machine, at a path or at an abstract name: see
/// [`UnixAddress`](waterwheel_channel::UnixAddress). They behave like TCP streams, without a network.
///
/// - A server at a path creates a file there, and its close removes the file, unless another file has taken
///   its place. A stale file, left by a server that has crashed, is replaced. If a socket is bound there, or
///   the file is not a socket, the bind fails.
/// - The permissions of the file and its directory decide who may connect. An abstract name is open to every
///   process.
/// - A server bound to [`Unnamed`](waterwheel_channel::UnixAddress::Unnamed) gets an abstract name that the
///   kernel chooses.
/// - Clients have no address, unless they are bound to one as a server is.
/// - While as many connections wait as a server's [`Backlog`](SocketOption::Backlog) allows, a connect is
///   retried within its time limit.
/// - Descriptors are passed in [`AncillaryMessage`](waterwheel_channel::AncillaryMessage)s: see
///   [`wrap_descriptor`](crate::wrap_descriptor). A handler may query [the credentials of its
///   peer](waterwheel_channel::Ctx::peer_credentials).
/// - A TCP option fails with an error that names the option.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::{Bootstrap, EventLoopGroup, ServerBootstrap};
/// use waterwheel_net::{Auto, Unix};
///
/// let group = EventLoopGroup::builder(Auto).threads(1).build()?;
/// # let path = std::env::temp_dir().join(format!("waterwheel-doc-{}", std::process::id()));
/// # let door = format!("unix:{}", path.display());
/// let server = ServerBootstrap::new(&group, Unix).bind(door.as_str()).join()?;
/// let client = Bootstrap::new(&group, Unix).connect(door.as_str()).join()?;
/// assert_eq!(client.peer_address(), server.local_address());
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # assert!(!path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Unix;

impl ServerTransportFactory for Unix {
    fn server(&self) -> Box<dyn Transport> {
        Box::new(Listener::new(Unix))
    }
}

impl TransportFactory for Unix {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Stream::new(Unix))
    }
}

impl SocketFactory for Unix {
    fn kind(&self) -> &'static SocketKind {
        static UNIX: SocketKind = SocketKind::new("unix").with_ancillary_messages();
        &UNIX
    }

    fn listen(&self, at: &Address, options: &[SocketOption]) -> io::Result<(Io, Address)> {
        expect_unix(at)?;
        let mut backlog = DEFAULT_BACKLOG;
        let mut others = Vec::new();
        for option in options {
            match option {
                SocketOption::Backlog(wanted) => backlog = *wanted,
                other => others.push(*other),
            }
        }
        let mut socket = socket(&others)?;
        let listening = socket.bind_unix(at).and_then(|()| socket.listen_bound(backlog));
        listening.map_err(context(format!("cannot listen at {at}")))?;
        let bound = socket.local_address().unwrap_or_else(|| at.clone());
        Ok((socket.into(), bound))
    }

    fn dial(&self, target: &ConnectTarget, options: &[SocketOption]) -> io::Result<Io> {
        expect_unix_peer(&target.remote)?;
        let mut socket = socket(options)?;
        if let Some(local) = &target.local {
            expect_unix(local)?;
            socket.bind_unix(local).map_err(context(format!("cannot connect from {local}")))?;
        }
        Ok(socket.into())
    }
}

/// Opens a socket with these options; the last one of a kind wins.
fn socket(options: &[SocketOption]) -> io::Result<Socket> {
    let socket = Socket::of_kind(Domain::UNIX, Type::STREAM, None)?.without_duplicates();
    socket.set_options(options)?;
    Ok(socket)
}
