//! Unix datagram sockets: the transport that bootstraps make their datagram channels with.

use std::io;

use socket2::{Domain, Type};
use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{
    DatagramSocketFactory, SocketKind, Transport, TransportFactory,
};
use waterwheel_channel::{Address, Datagrams, UnixAddress};

use crate::address::{expect_unix, expect_unix_peer};
use crate::error_context::context;
use crate::sockets::datagram_socket::DatagramSocket;
use crate::sockets::socket::Socket;

/// Datagrams between processes of one machine, at a path or at an abstract name: see [`Datagrams`]. Unlike UDP
/// datagrams they are neither lost nor reordered: a sender that is faster than its receiver learns that the
/// receiver's queue is full.
///
/// - A connected channel waits until its peer has room. An unconnected channel gets an error for each datagram
///   that its receiver has no room for, because the kernel does not report when the receiver has room.
/// - A channel connected without a local address stays unnamed: the peer cannot reply. A channel bound to
///   [`Unnamed`](UnixAddress::Unnamed), which may also be the local address of a connect, gets an abstract
///   name that the kernel chooses.
/// - The file at a path is created and removed like that of a [server](crate::Unix).
/// - Descriptors are passed in [`AncillaryMessage`](waterwheel_channel::AncillaryMessage)s: see
///   [`wrap_descriptor`](crate::wrap_descriptor).
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::{Bootstrap, Datagram, EventLoopGroup, UnixAddress};
/// use waterwheel_net::{Auto, UnixDatagrams};
///
/// let group = EventLoopGroup::builder(Auto).threads(1).build()?;
/// let here = Bootstrap::new(&group, UnixDatagrams).bind(UnixAddress::Unnamed).join()?;
/// let there = Bootstrap::new(&group, UnixDatagrams).connect(here.local_address().unwrap()).join()?;
/// there.write_and_flush(Datagram::new("hello")).join()?;
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct UnixDatagrams;

impl TransportFactory for UnixDatagrams {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Datagrams::new(UnixDatagrams))
    }
}

impl DatagramSocketFactory for UnixDatagrams {
    fn kind(&self) -> &'static SocketKind {
        static UNIX_DATAGRAMS: SocketKind =
            SocketKind::new("unix datagrams").with_ancillary_messages();
        &UNIX_DATAGRAMS
    }

    fn open(
        &self,
        local: Option<&Address>,
        peer: Option<&Address>,
        options: &[SocketOption],
    ) -> io::Result<(Io, Address)> {
        local.map(expect_unix).transpose()?;
        peer.map(expect_unix_peer).transpose()?;
        let mut socket = Socket::of_kind(Domain::UNIX, Type::DGRAM, None)?.without_duplicates();
        socket.set_options(options)?;
        if let Some(local) = local {
            socket.bind_unix(local).map_err(context(format!("cannot bind to {local}")))?;
        }
        if let Some(peer) = peer {
            socket.connect(peer)?;
        }
        let bound = socket.local_address().unwrap_or(UnixAddress::Unnamed.into());
        Ok((DatagramSocket::from(socket).into(), bound))
    }
}
