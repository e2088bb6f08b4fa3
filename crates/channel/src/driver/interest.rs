//! The parameters of a registration: its role, its read plan, its interest.

use std::fmt;

use crate::address::Address;

/// The role that a socket is attached in. The driver adds a socket to the selector only in one of these roles,
/// because the kernel keeps reporting a hang-up (EPOLLHUP) for a stream socket that was never connected (L17).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A listening socket; its reads are accepts.
    Listener,
    /// A connected stream.
    Stream,
    /// A stream that the driver connects to this address.
    Connecting(Address),
    /// A datagram socket, already bound or connected.
    Datagram,
}

/// The limits of a round of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// The maximum number of reads or accepts in one round, so that one peer cannot starve the others.
    pub max_reads: u32,
    /// The maximum number of bytes per read, capped at [`MAX_SIZE`](Self::MAX_SIZE).
    pub size: usize,
}

impl ReadPlan {
    /// The cap on the size of one read: 1 MiB, more than a socket's receive buffer usually holds.
    pub const MAX_SIZE: usize = 1 << 20;
}

impl Default for ReadPlan {
    /// Sixteen reads of 2 KiB, Netty's initial values.
    fn default() -> Self {
        Self { max_reads: 16, size: 2048 }
    }
}

/// The readiness that a foreign registration wants to be notified of.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// No interest; invalid for a registration.
    pub const NONE: Interest = Interest(0);
    /// Data to read.
    pub const READABLE: Interest = Interest(1);
    /// Space to write.
    pub const WRITABLE: Interest = Interest(1 << 1);
    /// Urgent data (EPOLLPRI); not every driver supports it.
    pub const PRIORITY: Interest = Interest(1 << 2);

    /// True if the interest is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if the interest includes every flag of `all`.
    #[must_use]
    pub fn contains(self, all: Interest) -> bool {
        self.0 & all.0 == all.0
    }

    /// Returns this interest without the flags of `these`.
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
