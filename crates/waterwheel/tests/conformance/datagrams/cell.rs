//! The columns of the matrix: transports of datagrams over drivers.

use std::net::{SocketAddr, UdpSocket};

use waterwheel::channel::{Address, Bootstrap, EventLoopGroup};
use waterwheel::net::Udp;
use waterwheel_testkit::manual::DatagramNetwork;

use crate::loops::Loops;
use crate::matrix::{Column, Reason};

/// A datagram transport over a driver.
pub(super) struct Cell {
    kind: Box<dyn TransportKind>,
    loops: Loops,
}

/// A datagram transport under test.
pub(super) trait TransportKind {
    /// Returns a bootstrap for channels of this transport.
    fn bootstrap(&self, group: &EventLoopGroup) -> Bootstrap;

    fn name(&self) -> &'static str;

    /// Returns an address at which another channel can be bound.
    fn unused_address(&self) -> Address;

    /// Returns an address at which no socket is bound.
    fn unbound_address(&self) -> Address;

    /// Returns a supported datagram length near the transport's maximum.
    fn long_len(&self) -> usize;

    /// Returns why the transport lacks this ability.
    fn reason_to_skip(&self, ability: Ability) -> Option<&'static str>;
}

/// An ability that not every cell has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ability {
    /// A full receiver makes senders that are connected to it wait.
    BackPressure,
    /// Sending to an unbound address succeeds, and the error (ECONNREFUSED) is reported later.
    LateErrors,
}

impl Cell {
    pub(super) fn new(kind: impl TransportKind + 'static, loops: Loops) -> Self {
        Self { kind: Box::new(kind), loops }
    }

    /// Returns the name shown in the matrix.
    pub(super) fn name(&self) -> String {
        format!("{} over {}", self.kind.name(), self.loops.name())
    }

    /// Returns the cell's column for printing.
    pub(super) fn column<'c>(&self, reason: Box<Reason<'c>>) -> Column<'c> {
        Column { kind: self.kind.name(), driver: self.loops.name(), reason }
    }

    /// Returns a new group of loops over the cell's driver.
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

/// UDP on the loopback interface.
pub(super) struct UdpTransport;

impl TransportKind for UdpTransport {
    fn bootstrap(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, Udp)
    }

    fn name(&self) -> &'static str {
        "UDP"
    }

    fn unused_address(&self) -> Address {
        SocketAddr::from(([127, 0, 0, 1], 0)).into()
    }

    fn unbound_address(&self) -> Address {
        // A port that the kernel has just assigned, released again.
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket.local_addr().expect("the socket has an address").into()
    }

    fn long_len(&self) -> usize {
        65_507
    }

    fn reason_to_skip(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::BackPressure => Some(
                "UDP senders do not wait for a receiver: a datagram for a full receiver is lost",
            ),
            Ability::LateErrors => None,
        }
    }
}

/// Datagrams in memory, over the manually driven driver.
#[derive(Default)]
pub(super) struct MemoryTransport(DatagramNetwork);

impl TransportKind for MemoryTransport {
    fn bootstrap(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, self.0.clone())
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn unused_address(&self) -> Address {
        SocketAddr::from(([192, 0, 2, 1], 0)).into()
    }

    fn unbound_address(&self) -> Address {
        SocketAddr::from(([192, 0, 2, 2], 1)).into()
    }

    fn long_len(&self) -> usize {
        65_507
    }

    fn reason_to_skip(&self, _: Ability) -> Option<&'static str> {
        None
    }
}
