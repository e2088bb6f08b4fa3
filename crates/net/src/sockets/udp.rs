//! UDP: the transport that bootstraps make their datagram channels with.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use socket2::{Domain, Protocol, Type};
use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{
    DatagramSocketFactory, SocketKind, Transport, TransportFactory,
};
use waterwheel_channel::{Address, Datagrams, Resolver};

use crate::address::expect_ip;
use crate::error_context::context;
use crate::resolver::SystemResolver;
use crate::sockets::datagram_socket::DatagramSocket;
use crate::sockets::socket::Socket;

/// UDP over IPv4 and IPv6: see [`Datagrams`].
///
/// - There are no servers and no accepted connections: one bound channel talks to every peer, and
///   [`answer`](waterwheel_channel::Datagram::answer) builds the reply to a datagram.
/// - A connected channel receives from its peer only, and its datagrams need no address.
/// - Multicast groups are joined with the option [`SocketOption::JoinGroup`], before the bind or later. A
///   datagram to a group is written to the group's address, as to any peer.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::{Bootstrap, Datagram, EventLoopGroup};
/// use waterwheel_net::{Auto, Udp};
///
/// let group = EventLoopGroup::builder(Auto).threads(1).build()?;
/// let here = Bootstrap::new(&group, Udp).bind("127.0.0.1:0").join()?;
/// let there = Bootstrap::new(&group, Udp).connect(here.local_address().unwrap()).join()?;
/// there.write_and_flush(Datagram::new("hello")).join()?;
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A member of a multicast group, beside other members on this machine:
///
/// ```no_run
/// use std::net::Ipv4Addr;
/// use waterwheel_channel::driver::{MulticastMembership, SocketOption};
/// use waterwheel_channel::{Bootstrap, EventLoopGroup};
/// use waterwheel_net::{Auto, Udp};
///
/// let group = EventLoopGroup::builder(Auto).threads(1).build()?;
/// let member = Bootstrap::new(&group, Udp)
///     .socket_option(SocketOption::ReuseAddress(true))
///     .socket_option(SocketOption::JoinGroup(MulticastMembership::new(Ipv4Addr::new(239, 1, 2, 3))))
///     .bind("0.0.0.0:7000")
///     .join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Udp;

impl TransportFactory for Udp {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Datagrams::new(Udp))
    }

    fn resolver(&self) -> Option<Arc<dyn Resolver>> {
        Some(SystemResolver::shared())
    }
}

impl DatagramSocketFactory for Udp {
    fn kind(&self) -> &'static SocketKind {
        static UDP: SocketKind = SocketKind::new("udp");
        &UDP
    }

    fn open(
        &self,
        local: Option<&Address>,
        peer: Option<&Address>,
        options: &[SocketOption],
    ) -> io::Result<(Io, Address)> {
        let peer = peer.map(|peer| expect_ip(peer, "UDP")).transpose()?;
        let at = match (local, peer) {
            (Some(local), _) => expect_ip(local, "UDP")?,
            (None, Some(SocketAddr::V6(_))) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            (None, _) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        };
        let domain = Domain::for_address(at);
        let socket =
            Socket::of_kind(domain, Type::DGRAM, Some(Protocol::UDP))?.without_duplicates();
        socket.set_options(options)?;
        if local.is_some() {
            socket.bind(&at.into()).map_err(context(format!("cannot bind to {at}")))?;
        }
        if let Some(peer) = peer {
            socket.connect(&peer.into())?;
        }
        let bound = socket.local_address().unwrap_or_else(|| at.into());
        Ok((DatagramSocket::from(socket).into(), bound))
    }
}
