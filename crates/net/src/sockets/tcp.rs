//! TCP: the transport that bootstraps make their channels with.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{
    ServerTransportFactory, SocketFactory, SocketKind, Transport, TransportFactory,
};
use waterwheel_channel::{Address, ConnectTarget, Listener, Resolver, Stream};

use crate::address::expect_ip;
use crate::error_context::context;
use crate::resolver::SystemResolver;
use crate::sockets::socket::Socket;

/// The default number of connections that may wait to be accepted: the kernel's default limit (somaxconn).
const DEFAULT_BACKLOG: u32 = 4096;

/// TCP over IPv4 and IPv6.
///
/// By default writes are sent at once (TCP_NODELAY, [`SocketOption::NoDelay`]), and a listener may bind to an
/// address with connections in TIME_WAIT (SO_REUSEADDR, [`SocketOption::ReuseAddress`]).
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::{Bootstrap, EventLoopGroup, ServerBootstrap};
/// use waterwheel_net::{Auto, Tcp};
///
/// let group = EventLoopGroup::builder(Auto).threads(1).build()?;
/// let server = ServerBootstrap::new(&group, Tcp).bind("127.0.0.1:0").join()?;
/// let client = Bootstrap::new(&group, Tcp).connect(server.local_address().unwrap()).join()?;
/// assert_eq!(client.peer_address(), server.local_address());
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl ServerTransportFactory for Tcp {
    fn server(&self) -> Box<dyn Transport> {
        Box::new(Listener::new(Tcp))
    }
}

impl TransportFactory for Tcp {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Stream::new(Tcp))
    }

    fn resolver(&self) -> Option<Arc<dyn Resolver>> {
        Some(SystemResolver::shared())
    }
}

impl SocketFactory for Tcp {
    fn kind(&self) -> &'static SocketKind {
        static TCP: SocketKind = SocketKind::new("tcp");
        &TCP
    }

    fn listen(&self, at: &Address, options: &[SocketOption]) -> io::Result<(Io, Address)> {
        let family = expect_ip(at, "TCP")?;
        let mut backlog = DEFAULT_BACKLOG;
        let mut all = vec![SocketOption::ReuseAddress(true), SocketOption::NoDelay(true)];
        for option in options {
            match option {
                SocketOption::Backlog(wanted) => backlog = *wanted,
                other => all.push(*other),
            }
        }
        let socket = socket(family, &all)?;
        socket.listen(at, backlog).map_err(context(format!("cannot listen at {at}")))?;
        let bound = socket.local_address().unwrap_or_else(|| at.clone());
        Ok((socket.into(), bound))
    }

    fn dial(&self, target: &ConnectTarget, options: &[SocketOption]) -> io::Result<Io> {
        let all = [&[SocketOption::NoDelay(true)], options].concat();
        let socket = socket(expect_ip(&target.remote, "TCP")?, &all)?;
        if let Some(local) = &target.local {
            expect_ip(local, "TCP")?;
            socket.bind(local).map_err(context(format!("cannot connect from {local}")))?;
        }
        Ok(socket.into())
    }
}

/// Opens a socket with these options; the last one of a kind wins.
fn socket(family_of: SocketAddr, options: &[SocketOption]) -> io::Result<Socket> {
    let socket = Socket::unconnected(family_of)?.without_duplicates();
    socket.set_options(options)?;
    Ok(socket)
}
