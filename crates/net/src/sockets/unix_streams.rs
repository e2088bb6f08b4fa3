//! Streams of Unix sockets: what bootstraps make their channels of.

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

/// So many connections wait to be accepted, unless said otherwise: what the kernel allows by default.
const DEFAULT_BACKLOG: u32 = 4096;

/// Streams within the machine, at a path or at an abstract name: see
/// [`UnixAddress`](waterwheel_channel::UnixAddress). They are what TCP's are, without a network.
///
/// - A server at a path makes a file there, and removes it when it is closed, unless somebody has put another
///   in its place. One that is left from a server that came to a sudden end is replaced. Where somebody
///   listens, or there is a file of another kind, the bind fails.
/// - Who may connect is up to the permissions of that file and its directory. An abstract name is open to
///   everybody.
/// - Bound to [`Unnamed`](waterwheel_channel::UnixAddress::Unnamed) a server gets an abstract name of the
///   system's choice.
/// - Clients mostly have no address. One that is to have one is bound to it as a server is.
/// - While as many connections wait as a server's [`Backlog`](SocketOption::Backlog) allows, a connect is
///   tried again and again, within its time limit.
/// - Descriptors are passed in [`AncillaryMessage`](waterwheel_channel::AncillaryMessage)s: see [`wrap_descriptor`](crate::wrap_descriptor). A handler
///   may ask [who its peer is](waterwheel_channel::Ctx::peer_credentials).
/// - Options of TCP are refused, with their name.
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
        static UNIX: SocketKind = SocketKind::new("unix").passing();
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

/// A socket with these options; the last word counts.
fn socket(options: &[SocketOption]) -> io::Result<Socket> {
    let socket = Socket::of_kind(Domain::UNIX, Type::STREAM, None)?.without_duplicates();
    socket.set_options(options)?;
    Ok(socket)
}
