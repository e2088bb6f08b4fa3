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

/// A transport.
pub(crate) trait TransportKind {
    /// As it is called in the matrix.
    fn name(&self) -> &'static str;

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap;

    fn client(&self, group: &EventLoopGroup) -> Bootstrap;

    /// Where another server can be bound.
    fn unused_address(&self) -> AddressSpec;

    /// Where nobody listens.
    fn refusing_address(&self) -> AddressSpec;

    /// Why it does not have this, over any driver.
    fn lacks(&self, ability: Ability) -> Option<&'static str>;

    /// Connects somebody to a server who is no channel. To be called by cases that need it.
    fn foreign(&self, server: &Channel) -> Box<dyn ForeignPeer>;
}

/// What not every cell has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// Writes are system calls, and can be write_counter.
    SystemWrites,
    /// Buffers can be made small.
    SmallBuffers,
    /// A close may be a reset.
    Lingering,
    /// That one end does not read any more is no affair of the other one.
    IndependentDirections,
    /// The other end may be somebody else's, and be reset.
    ForeignPeer,
    /// A connect may take a while.
    SlowConnect,
    /// Channels may share a loop.
    SharedLoop,
}

/// The other end of a connection, that is no channel.
pub(crate) trait ForeignPeer {
    fn send(&mut self, bytes: &[u8]);

    /// Sends no more, and goes on receiving.
    fn finish(&mut self);

    /// Receives until the end.
    fn receive_all(&mut self) -> io::Result<Vec<u8>>;

    /// Resets the connection. There is something that it has not received.
    fn reset(self: Box<Self>);
}

impl Cell {
    pub(crate) fn new(kind: impl TransportKind + 'static, loops: Loops) -> Self {
        Self { kind: Box::new(kind), loops }
    }

    /// As it is called in the matrix.
    pub(crate) fn name(&self) -> String {
        format!("{} over {}", self.kind.name(), self.loops.name())
    }

    /// For printing.
    pub(crate) fn column<'c>(&self, reason: Box<Reason<'c>>) -> Column<'c> {
        Column { kind: self.kind.name(), driver: self.loops.name(), reason }
    }

    /// Loops over its driver.
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

    /// Why it does not have this.
    pub(crate) fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::SharedLoop => self.loops.why_one_each(),
            other => self.kind.lacks(other),
        }
    }

    /// How many connections there may be at the same time.
    pub(crate) fn at_once(&self) -> usize {
        self.loops.at_once()
    }

    pub(crate) fn foreign(&self, server: &Channel) -> Box<dyn ForeignPeer> {
        self.kind.foreign(server)
    }

    /// How often its drivers were asked to write.
    pub(crate) fn writes(&self) -> usize {
        self.loops.writes()
    }

    /// So long passes until the next timer is looked for: on a clock that has to be moved.
    pub(crate) fn pass(&self, time: Duration) {
        self.loops.pass(time);
    }
}
