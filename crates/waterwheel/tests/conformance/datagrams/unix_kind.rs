//! Unix datagrams, by abstract names.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel::channel::driver::{Io, SocketOption};
use waterwheel::channel::transport::{DatagramSockets, SocketKind, Transport, Transports};
use waterwheel::channel::{Address, Bootstrap, Datagrams, EventLoopGroup, UnixAddress};
use waterwheel::net::DatagramSocket;

use super::cell::{Ability, Kind};

#[derive(Clone, Copy)]
pub(super) struct UnixKind;

impl Kind for UnixKind {
    fn bootstrap(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, *self)
    }

    fn name(&self) -> &'static str {
        "Unix"
    }

    fn free_address(&self) -> Address {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        UnixAddress::abstract_name(format!("waterwheel-{process}-{number}")).into()
    }

    fn empty_address(&self) -> Address {
        self.free_address()
    }

    fn long(&self) -> usize {
        200_000
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::Pressure => None,
            Ability::LateErrors => {
                Some("whether a Unix socket is there is known when it is sent to, not later")
            }
        }
    }
}

impl Transports for UnixKind {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Datagrams::new(*self))
    }
}

impl DatagramSockets for UnixKind {
    fn kind(&self) -> &'static SocketKind {
        static UNIX: SocketKind = SocketKind::new("unix");
        &UNIX
    }

    fn open(
        &self,
        local: Option<&Address>,
        peer: Option<&Address>,
        _: &[SocketOption],
    ) -> io::Result<(Io, Address)> {
        let local = local.expect("every case binds");
        let socket = UnixDatagram::bind_addr(&in_system(local)?)
            .map_err(|error| io::Error::new(error.kind(), format!("{local}: {error}")))?;
        if let Some(peer) = peer {
            socket.connect_addr(&in_system(peer)?)?;
        }
        Ok((DatagramSocket::new(socket)?.into(), local.clone()))
    }
}

fn in_system(address: &Address) -> io::Result<SocketAddr> {
    match address {
        Address::Unix(UnixAddress::Abstract(name)) => SocketAddr::from_abstract_name(name),
        other => panic!("{other} is no abstract name"),
    }
}
