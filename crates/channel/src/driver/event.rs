//! What a driver tells its loop.

use std::fmt;
use std::io;

use bytes::Bytes;

use crate::address::Address;
use crate::payload::{AncillaryMessage, Datagram, Io};
use crate::token::Token;

/// Something that happened to a registration. Their order is part of the
/// [contract](super#the-contract).
///
/// Its form is fixed so that the token is in the same place whatever has happened.
#[derive(Debug)]
#[repr(u32)]
pub enum IoEvent {
    /// A connecting stream is connected.
    Connected(Token),
    /// A pending write has written so many bytes; zero: there is room, write again.
    Wrote(Token, usize),
    /// A listener has accepted a connection. Dropping it closes it.
    Accepted(Token, Io, Address),
    /// A stream has read something; never empty.
    Read(Token, Bytes),
    /// A stream has read something, and that was all for this round: `Read` and `ReadComplete` in one.
    LastRead(Token, Bytes),
    /// A datagram was received.
    Datagram(Token, Box<Datagram>),
    /// A stream has read something, or a datagram was received, with more than bytes.
    AncillaryMessage(Token, Box<AncillaryMessage>),
    /// That was all for this round of reads or accepts.
    ReadComplete(Token),
    /// The peer will send no more.
    Eof(Token),
    /// The peer will send no more, noticed while reads are off: what it has sent before is still to be read,
    /// and then `Eof` follows.
    PeerFinished(Token),
    /// One accept of a listener failed; the next may not.
    AcceptFailed(Token, io::Error),
    /// A datagram could not be received, or one that was sent has not arrived; the next may.
    ReceiveFailed(Token, io::Error),
    /// It is broken.
    Failed(Token, io::Error),
    /// It is gone, and nothing of it is in flight.
    Detached(Token),
    /// A foreign descriptor is ready.
    Foreign(Token, Readiness),
}

impl IoEvent {
    /// Splits [`LastRead`](Self::LastRead) into the `Read` and the `ReadComplete` that it stands for. Any other event
    /// stays as it is.
    #[must_use]
    pub fn split(self) -> (IoEvent, Option<IoEvent>) {
        match self {
            IoEvent::LastRead(token, bytes) => {
                (IoEvent::Read(token, bytes), Some(IoEvent::ReadComplete(token)))
            }
            other => (other, None),
        }
    }

    /// Whom it concerns.
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

/// What a foreign descriptor is ready for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Readiness(u8);

impl Readiness {
    /// There is something to read, or the end of it.
    pub const READABLE: Readiness = Readiness(1);
    /// There is room to write.
    pub const WRITABLE: Readiness = Readiness(1 << 1);
    /// There is something urgent.
    pub const PRIORITY: Readiness = Readiness(1 << 2);
    /// It has an error to report. Told whatever the interest is.
    pub const ERROR: Readiness = Readiness(1 << 3);
    /// The other end is gone. Told whatever the interest is.
    pub const HANG_UP: Readiness = Readiness(1 << 4);

    /// Whether it is ready for nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it is ready for all of these.
    #[must_use]
    pub fn contains(self, all: Readiness) -> bool {
        self.0 & all.0 == all.0
    }

    /// Whether reading will not block: something is there, or the end, or an error.
    #[must_use]
    pub fn is_readable(self) -> bool {
        self.0 & (Self::READABLE.0 | Self::HANG_UP.0 | Self::ERROR.0) != 0
    }

    /// Whether writing will not block: there is room, or an error.
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
