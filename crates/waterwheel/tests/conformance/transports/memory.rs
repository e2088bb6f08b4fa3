//! Sockets in memory, of the manually driven driver: the same channel code as TCP, over a readiness-based or
//! completion-based driver with a manual clock.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};

use waterwheel::channel::{
    Address, AddressSpec, Bootstrap, Channel, EventLoopGroup, ServerBootstrap,
};
use waterwheel_testkit::manual::{Manual, Peer, StreamNetwork};

use crate::cell::{Ability, ForeignPeer, TransportKind};

pub(crate) struct MemoryTransport(StreamNetwork);

impl MemoryTransport {
    /// Uses the sockets of this manual driver.
    pub(crate) fn of(manual: &Manual) -> Self {
        Self(manual.network())
    }
}

impl TransportKind for MemoryTransport {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap::new(group, self.0.clone())
    }

    fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, self.0.clone())
    }

    fn unused_address(&self) -> AddressSpec {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        SocketAddr::from(([192, 0, 2, 1], NEXT.fetch_add(1, Ordering::Relaxed))).into()
    }

    fn refusing_address(&self) -> AddressSpec {
        AddressSpec::from("192.0.2.2:1")
    }

    fn reason_to_skip(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::SmallBuffers | Ability::Lingering => {
                Some("buffer sizes and SO_LINGER need a kernel, and there is none")
            }
            Ability::SystemWrites
            | Ability::IndependentDirections
            | Ability::ForeignPeer
            | Ability::SlowConnect
            | Ability::SharedLoop => None,
        }
    }

    fn connect_foreign(&self, server: &Channel) -> Box<dyn ForeignPeer> {
        let Some(Address::Ip(address)) = server.local_address() else {
            panic!("{server:?} has no address of this transport");
        };
        let listener = self.0.listener(address).expect("the server listens");
        Box::new(listener.connect().expect("the server listens"))
    }
}

impl ForeignPeer for Peer {
    fn send(&mut self, bytes: &[u8]) {
        Peer::send(self, bytes);
    }

    fn finish(&mut self) {
        Peer::finish(self);
    }

    fn receive_all(&mut self) -> io::Result<Vec<u8>> {
        self.set_limit(usize::MAX);
        self.wait_ended();
        Ok(self.take_received().to_vec())
    }

    fn reset(self: Box<Self>) {
        Peer::reset(&self);
    }
}
