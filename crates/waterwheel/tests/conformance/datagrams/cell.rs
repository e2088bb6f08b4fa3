//! The columns of the matrix: transports of datagrams over drivers.

use std::net::{SocketAddr, UdpSocket};

use waterwheel::channel::{Address, Bootstrap, EventLoopGroup};
use waterwheel::net::Udp;
use waterwheel_testkit::manual::DatagramNetwork;

use crate::loops::Loops;
use crate::matrix::{Column, Reason};

/// A kind of datagrams over a driver.
pub(super) struct Cell {
    kind: Box<dyn TransportKind>,
    loops: Loops,
}

/// A kind of datagrams.
pub(super) trait TransportKind {
    /// What bootstraps make its channels of.
    fn bootstrap(&self, group: &EventLoopGroup) -> Bootstrap;

    fn name(&self) -> &'static str;

    /// Where another channel can be bound.
    fn free_address(&self) -> Address;

    /// Where nobody is.
    fn empty_address(&self) -> Address;

    /// A length that it takes, near the longest there may be.
    fn long(&self) -> usize;

    /// Why it does not have this.
    fn lacks(&self, ability: Ability) -> Option<&'static str>;
}

/// What not every cell has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ability {
    /// A receiver that does not read makes whoever is connected to it wait.
    Pressure,
    /// That what was sent was received by nobody is told later.
    LateErrors,
}

impl Cell {
    pub(super) fn new(kind: impl TransportKind + 'static, loops: Loops) -> Self {
        Self { kind: Box::new(kind), loops }
    }

    /// As it is called in the matrix.
    pub(super) fn name(&self) -> String {
        format!("{} over {}", self.kind.name(), self.loops.name())
    }

    /// For printing.
    pub(super) fn column<'c>(&self, reason: Box<Reason<'c>>) -> Column<'c> {
        Column { kind: self.kind.name(), driver: self.loops.name(), reason }
    }

    /// Loops over its driver.
    pub(super) fn group(&self, threads: usize) -> EventLoopGroup {
        self.loops.group(threads)
    }

    pub(super) fn bootstrap(&self, group: &EventLoopGroup) -> Bootstrap {
        self.kind.bootstrap(group)
    }

    pub(super) fn kind(&self) -> &dyn TransportKind {
        &*self.kind
    }
}

/// UDP on the loopback.
pub(super) struct UdpKind;

impl TransportKind for UdpKind {
    fn bootstrap(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, Udp)
    }

    fn name(&self) -> &'static str {
        "UDP"
    }

    fn free_address(&self) -> Address {
        SocketAddr::from(([127, 0, 0, 1], 0)).into()
    }

    fn empty_address(&self) -> Address {
        // Bound by the kernel, and given back.
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.local_addr().expect("its address").into()
    }

    fn long(&self) -> usize {
        65_507
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::Pressure => {
                Some("UDP makes nobody wait for a receiver: what finds no room there is lost")
            }
            Ability::LateErrors => None,
        }
    }
}

/// Datagrams in memory, over the driver that is driven by hand.
#[derive(Default)]
pub(super) struct MemoryTransport(DatagramNetwork);

impl TransportKind for MemoryTransport {
    fn bootstrap(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, self.0.clone())
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn free_address(&self) -> Address {
        SocketAddr::from(([192, 0, 2, 1], 0)).into()
    }

    fn empty_address(&self) -> Address {
        SocketAddr::from(([192, 0, 2, 2], 1)).into()
    }

    fn long(&self) -> usize {
        65_507
    }

    fn lacks(&self, _: Ability) -> Option<&'static str> {
        None
    }
}
