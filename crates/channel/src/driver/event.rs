//! The events that a driver reports to its loop.

use std::fmt;
use std::io;

use bytes::Bytes;

use crate::address::Address;
use crate::base::token::Token;
use crate::payload::{AncillaryMessage, Datagram, Io};

/// An event of a registration. The order of events is part of the [contract](super#the-contract).
///
/// The layout is fixed (`repr(u32)`) so that the token is at the same offset in every variant.
#[derive(Debug)]
#[repr(u32)]
pub enum IoEvent {
    /// A stream has connected.
    Connected(Token),
    /// A pending write has written this many bytes. Zero means that the socket is writable: write again.
    Wrote(Token, usize),
    /// A listener has accepted a connection. Dropping the `Io` closes the connection.
    Accepted(Token, Io, Address),
    /// A stream has read bytes, never zero.
    Read(Token, Bytes),
    /// A stream has read the last bytes of this round: `Read` and `ReadComplete` in one.
    LastRead(Token, Bytes),
    /// A datagram was received.
    Datagram(Token, Box<Datagram>),
    /// Bytes or a datagram were received together with file descriptors or credentials (SCM_RIGHTS, SCM_CREDENTIALS).
    AncillaryMessage(Token, Box<AncillaryMessage>),
    /// This round of reads or accepts has ended.
    ReadComplete(Token),
    /// The peer has closed its sending direction, and everything was read.
    Eof(Token),
    /// The driver has noticed, while reads are off, that the peer has closed its sending direction (EPOLLRDHUP).
    /// Bytes that the peer sent before may still be unread: `Eof` follows once they are read.
    PeerFinished(Token),
    /// A listener failed to accept a connection; a later accept may succeed.
    AcceptFailed(Token, io::Error),
    /// A datagram could not be received, or a sent datagram was not delivered; the socket stays usable.
    ReceiveFailed(Token, io::Error),
    /// The registration is broken.
    Failed(Token, io::Error),
    /// The registration has ended, and none of its operations is in flight.
    Detached(Token),
    /// A foreign descriptor is ready.
    Foreign(Token, Readiness),
}

impl IoEvent {
    /// Splits [`LastRead`](Self::LastRead) into the `Read` and the `ReadComplete` that it stands for. Returns any
    /// other event unchanged.
    #[must_use]
    pub fn split(self) -> (IoEvent, Option<IoEvent>) {
        match self {
            IoEvent::LastRead(token, bytes) => {
                (IoEvent::Read(token, bytes), Some(IoEvent::ReadComplete(token)))
            }
            other => (other, None),
        }
    }

    /// Returns the token of the registration that the event belongs to.
    #[inline]
    #[must_use]
    pub fn token(&self) -> Token {
        match self {
            IoEvent::Connected(token)
            | IoEvent::Wrote(token, _)
            | IoEvent::Accepted(token, ..)
            | IoEvent::Read(token, _)
            | IoEvent::LastRead(token, _)
            | IoEvent::Datagram(token, _)
            | IoEvent::AncillaryMessage(token, _)
            | IoEvent::ReadComplete(token)
            | IoEvent::Eof(token)
            | IoEvent::PeerFinished(token)
            | IoEvent::AcceptFailed(token, _)
            | IoEvent::ReceiveFailed(token, _)
            | IoEvent::Failed(token, _)
            | IoEvent::Detached(token)
            | IoEvent::Foreign(token, _) => *token,
        }
    }
}

/// The readiness of a foreign descriptor.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Readiness(u8);

impl Readiness {
    /// There is data to read, or the end of the stream.
    pub const READABLE: Readiness = Readiness(1);
    /// There is space to write.
    pub const WRITABLE: Readiness = Readiness(1 << 1);
    /// There is urgent data (EPOLLPRI).
    pub const PRIORITY: Readiness = Readiness(1 << 2);
    /// There is an error. The driver reports errors whatever the interest is.
    pub const ERROR: Readiness = Readiness(1 << 3);
    /// The peer has hung up. The driver reports hang-ups whatever the interest is.
    pub const HANG_UP: Readiness = Readiness(1 << 4);

    /// True if no readiness flag is set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if every readiness flag of `all` is set.
    #[must_use]
    pub fn contains(self, all: Readiness) -> bool {
        self.0 & all.0 == all.0
    }

    /// True if a read would not block: there is data, the end of the stream, or an error.
    #[must_use]
    pub fn is_readable(self) -> bool {
        self.0 & (Self::READABLE.0 | Self::HANG_UP.0 | Self::ERROR.0) != 0
    }

    /// True if a write would not block: there is space, or an error.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self.0 & (Self::WRITABLE.0 | Self::ERROR.0) != 0
    }
}

impl std::ops::BitOr for Readiness {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READABLE, "readable"),
            (Self::WRITABLE, "writable"),
            (Self::PRIORITY, "priority"),
            (Self::ERROR, "error"),
            (Self::HANG_UP, "hang-up"),
        ];
        let set = names.iter().filter(|(bit, _)| self.contains(*bit)).map(|(_, name)| *name);
        write!(f, "Readiness({})", set.collect::<Vec<_>>().join(" | "))
    }
}
