//! Embedded channels, connected to each other or driven by the test as a foreign peer.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use waterwheel::channel::{
    Address, AddressSpec, Bootstrap, Channel, EventLoopGroup, ServerBootstrap,
};
use waterwheel::executor::Error;
use waterwheel_testkit::embedded::{EmbeddedNetwork, EmbeddedPeer};

use crate::cell::{Ability, ForeignPeer, TransportKind};
use crate::test_bed::wait_until;

#[derive(Default)]
pub(crate) struct EmbeddedTransport(EmbeddedNetwork);

impl TransportKind for EmbeddedTransport {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap::new(group, self.0.clone())
    }

    fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, self.0.clone())
    }

    fn unused_address(&self) -> AddressSpec {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Address::local(format!("embedded-{}", NEXT.fetch_add(1, Ordering::Relaxed))).into()
    }

    fn refusing_address(&self) -> AddressSpec {
        Address::local("nobody listens here").into()
    }

    fn reason_to_skip(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::SystemWrites => Some("bytes move within the process, without a system call"),
            Ability::SmallBuffers | Ability::Lingering => {
                Some("there is no socket to set an option on")
            }
            Ability::IndependentDirections
            | Ability::ForeignPeer
            | Ability::SlowConnect
            | Ability::SharedLoop => None,
        }
    }

    fn connect_foreign(&self, server: &Channel) -> Box<dyn ForeignPeer> {
        let at = server.local_address().expect("the server is bound");
        Box::new(self.0.connect_peer(&at).expect("the server listens"))
    }
}

impl ForeignPeer for EmbeddedPeer {
    fn send(&mut self, bytes: &[u8]) {
        EmbeddedPeer::send(self, Bytes::copy_from_slice(bytes));
    }

    fn finish(&mut self) {
        EmbeddedPeer::finish(self);
    }

    fn receive_all(&mut self) -> io::Result<Vec<u8>> {
        wait_until("the channel has sent everything", || self.is_ended());
        Ok(std::iter::from_fn(|| self.receive()).flatten().collect())
    }

    fn reset(self: Box<Self>) {
        self.fail(Error::new(io::Error::from(io::ErrorKind::ConnectionReset)));
    }
}
