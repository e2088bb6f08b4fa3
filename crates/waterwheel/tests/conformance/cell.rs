//! The columns of the matrix: transports over drivers.

use std::io;
use std::time::Duration;

use waterwheel::channel::{AddressSpec, Bootstrap, Channel, EventLoopGroup, ServerBootstrap};

use crate::loops::Loops;
use crate::matrix::{Column, Reason};

/// A transport over a driver.
pub(crate) struct Cell {
    kind: Box<dyn TransportKind>,
    loops: Loops,
}

/// A stream transport under test.
pub(crate) trait TransportKind {
    /// Returns the name shown in the matrix.
    fn name(&self) -> &'static str;

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap;

    fn client(&self, group: &EventLoopGroup) -> Bootstrap;

    /// Returns an address at which another server can be bound.
    fn unused_address(&self) -> AddressSpec;

    /// Returns an address at which no server listens.
    fn refusing_address(&self) -> AddressSpec;

    /// Returns why the transport lacks this ability, over any driver.
    fn reason_to_skip(&self, ability: Ability) -> Option<&'static str>;

    /// Connects a peer that is not a channel to a server. Only for cases that require [`Ability::ForeignPeer`].
    fn connect_foreign(&self, server: &Channel) -> Box<dyn ForeignPeer>;
}

/// An ability that not every cell has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// Writes are calls of the driver, and can be counted.
    SystemWrites,
    /// The kernel's buffers can be made small (SO_SNDBUF, SO_RCVBUF).
    SmallBuffers,
    /// A close may send a reset (SO_LINGER).
    Lingering,
    /// An end that has shut down its input does not make the other end's writes fail.
    IndependentDirections,
    /// The peer may be something other than a channel, and may reset the connection.
    ForeignPeer,
    /// A connect may stay pending.
    SlowConnect,
    /// Channels may share a loop.
    SharedLoop,
}

/// The peer of a connection that is not a channel of this framework.
pub(crate) trait ForeignPeer {
    fn send(&mut self, bytes: &[u8]);

    /// Shuts down the output; the peer can still receive.
    fn finish(&mut self);

    /// Receives until the end of the stream.
    fn receive_all(&mut self) -> io::Result<Vec<u8>>;

    /// Resets the connection. The caller ensures that there are bytes this peer has not received.
    fn reset(self: Box<Self>);
}

impl Cell {
    pub(crate) fn new(kind: impl TransportKind + 'static, loops: Loops) -> Self {
        Self { kind: Box::new(kind), loops }
    }

    /// Returns the name shown in the matrix.
    pub(crate) fn name(&self) -> String {
        format!("{} over {}", self.kind.name(), self.loops.name())
    }

    /// Returns the cell's column for printing.
    pub(crate) fn column<'c>(&self, reason: Box<Reason<'c>>) -> Column<'c> {
        Column { kind: self.kind.name(), driver: self.loops.name(), reason }
    }

    /// Returns a new group of loops over the cell's driver.
    pub(crate) fn group(&self, threads: usize) -> EventLoopGroup {
        self.loops.group(threads)
    }

    pub(crate) fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        self.kind.server(group)
    }

    pub(crate) fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        self.kind.client(group)
    }

    pub(crate) fn unused_address(&self) -> AddressSpec {
        self.kind.unused_address()
    }

    pub(crate) fn refusing_address(&self) -> AddressSpec {
        self.kind.refusing_address()
    }

    /// Returns why the cell lacks this ability.
    pub(crate) fn reason_to_skip(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::SharedLoop => self.loops.why_no_shared_loop(),
            other => self.kind.reason_to_skip(other),
        }
    }

    /// Returns how many connections may be open at the same time.
    pub(crate) fn max_connections(&self) -> usize {
        self.loops.max_connections()
    }

    pub(crate) fn connect_foreign(&self, server: &Channel) -> Box<dyn ForeignPeer> {
        self.kind.connect_foreign(server)
    }

    /// Returns how many writes the cell's drivers have made.
    pub(crate) fn writes(&self) -> usize {
        self.loops.writes()
    }

    /// Advances the clock, if it is a manual one.
    pub(crate) fn advance_clock(&self, time: Duration) {
        self.loops.advance_clock(time);
    }
}
