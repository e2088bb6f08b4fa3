//! What is asked of a driver for a registration: its role, how it reads, what it is to be told of.

use std::fmt;

use crate::address::Address;

/// What a socket is attached as. It enters the kernel's set only as one of these: a socket that was
/// never connected would report a hang-up for ever (L17).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A listening socket; its reads are accepts.
    Listener,
    /// A connected stream.
    Stream,
    /// A stream that is to be connected to this address.
    Connecting(Address),
    /// A socket for datagrams, bound or connected already.
    Datagram,
}

/// How a round of reads goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// At most so many reads or accepts in one round, so that one peer cannot starve the others.
    pub max_reads: u32,
    /// At most so many bytes per read; beyond [`MAX_SIZE`](Self::MAX_SIZE) means that many.
    pub size: usize,
}

impl ReadPlan {
    /// No driver reads more than this at once: 1 MiB, more than a socket's buffer holds as a rule.
    pub const MAX_SIZE: usize = 1 << 20;
}

impl Default for ReadPlan {
    /// Sixteen reads of 2 KiB, as Netty begins.
    fn default() -> Self {
        Self { max_reads: 16, size: 2048 }
    }
}

/// What a foreign registration wants to be told of.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Nothing: not a valid interest of a registration.
    pub const NONE: Interest = Interest(0);
    /// There is something to read.
    pub const READABLE: Interest = Interest(1);
    /// There is room to write.
    pub const WRITABLE: Interest = Interest(1 << 1);
    /// There is something urgent; not every driver can tell.
    pub const PRIORITY: Interest = Interest(1 << 2);

    /// Whether it is an interest in nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it covers all of these.
    #[must_use]
    pub fn contains(self, all: Interest) -> bool {
        self.0 & all.0 == all.0
    }

    /// Without these.
    #[must_use]
    pub fn without(self, these: Interest) -> Interest {
        Interest(self.0 & !these.0)
    }
}

impl std::ops::BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READABLE, "readable"),
            (Self::WRITABLE, "writable"),
            (Self::PRIORITY, "priority"),
        ];
        let set = names.iter().filter(|(bit, _)| self.contains(*bit)).map(|(_, name)| *name);
        write!(f, "Interest({})", set.collect::<Vec<_>>().join(" | "))
    }
}
