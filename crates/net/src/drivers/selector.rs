//! What the readiness driver asks of the kernel's set of watched descriptors.
//!
//! A selector supplies:
//! - a set that is level-triggered: what is ready is reported by every wait until it is dealt with. If the
//!   selector [can](Selector::EDGES), a descriptor that asks for it is [edge-triggered](Watch::edge);
//! - of an edge-triggered descriptor, all that is ready whenever it is added or modified, and whenever
//!   something that it is watched for begins;
//! - errors and hang-ups whatever the interest is, an empty one included;
//! - the end of the peer's sending ([`Ready::READ_END`]) together with readability, or alone if asked for:
//!   then it is reported for ever, so whoever asks takes it back when it was told once;
//! - identity by token: it hands back the bits it was given, never a descriptor's number, which may
//!   mean something else by then. Whether the token still lives is for the driver to find out;
//! - a wait of nanoseconds or of the kernel's resolution above it, never shorter than asked, that
//!   makes one system call and does not retry: an interruption is an error like any other;
//! - the [`Waker`] as a member of the set from its opening on;
//! - a buffer that is used again, and grows when a wait fills it.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::Token;
use waterwheel_channel::driver::{Interest, Readiness};

use crate::drivers::waker::Waker;

/// The events that a descriptor is watched for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) interest: Interest,
    /// The end of the peer's sending (EPOLLRDHUP), also without readability.
    pub(crate) read_end: bool,
    /// Readiness is reported once, when it begins (EPOLLET), and not for as long as it lasts.
    pub(crate) edge: bool,
}

impl Watch {
    /// True if the end of the peer's sending is to be told.
    pub(crate) fn has_read_end(self) -> bool {
        self.read_end || self.interest.contains(Interest::READABLE)
    }

    /// True if whoever is watched for this is told everything that `wanted` asks for.
    pub(crate) fn covers(self, wanted: Watch) -> bool {
        let read_end = self.has_read_end() || !wanted.has_read_end();
        self.interest.contains(wanted.interest) && read_end && self.edge == wanted.edge
    }
}

impl From<Interest> for Watch {
    fn from(interest: Interest) -> Self {
        Self { interest, read_end: false, edge: false }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = if self.edge { ", edges" } else { "" };
        write!(f, "{:?}{}{edge}", self.interest, if self.read_end { " and the end" } else { "" })
    }
}

/// A set of watched descriptors. See the [module's documentation](self).
pub(crate) trait Selector: Sized + Send {
    /// A descriptor that is closed, and has no duplicate, leaves the set by itself.
    const FORGETS_CLOSED: bool;

    /// The set can be edge-triggered. One that cannot takes no notice of [`Watch::edge`].
    const EDGES: bool;

    /// A new set like this one, with the waker in it and nothing else.
    fn reopen(&self, waker: &Arc<Waker>) -> io::Result<Self>;

    /// Begins to watch a descriptor that is not in the set.
    fn add(&mut self, fd: BorrowedFd<'_>, token: Token, watch: Watch) -> io::Result<()>;

    /// Changes what a descriptor in the set is watched for.
    fn modify(&mut self, fd: BorrowedFd<'_>, token: Token, watch: Watch) -> io::Result<()>;

    /// Ends the watching of a descriptor. There is nothing to do about a failure: it is not watched
    /// under this name.
    fn remove(&mut self, fd: BorrowedFd<'_>, token: Token);

    /// Waits, without limit or for so long; returns how many signals there are.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize>;

    /// Returns a signal of the last wait, read where the kernel has written it.
    fn signal(&self, at: usize) -> Signal;

    /// Returns the first `n` signals of the last wait.
    fn signals(&self, n: usize) -> impl Iterator<Item = Signal>;
}

/// What a wait has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The waker was used.
    Woken,
    /// A descriptor is ready.
    Ready(Token, Ready),
}

/// What the kernel says of a descriptor. The bits are epoll's, so that its words need no translation.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ready(u16);

impl Ready {
    pub(crate) const NONE: Ready = Ready(0);
    /// There is something to read, or its end.
    pub(crate) const READ: Ready = Ready(1);
    /// There is something urgent.
    pub(crate) const PRIORITY: Ready = Ready(1 << 1);
    /// There is room to write, or a connection was made.
    pub(crate) const WRITE: Ready = Ready(1 << 2);
    /// There is an error to be fetched.
    pub(crate) const ERROR: Ready = Ready(1 << 3);
    /// Both directions are shut.
    pub(crate) const HANG_UP: Ready = Ready(1 << 4);
    /// It is not an open descriptor. Not a word of epoll's.
    pub(crate) const INVALID: Ready = Ready(1 << 5);
    /// The peer will send no more: behind what there is to read comes the end.
    pub(crate) const READ_END: Ready = Ready(1 << 13);

    /// Each bit for which `set` says so.
    pub(crate) fn from_table<T: Copy>(table: &[(T, Ready)], set: impl Fn(T) -> bool) -> Ready {
        let bits =
            table.iter().filter(|(flag, _)| set(*flag)).fold(0, |bits, (_, bit)| bits | bit.0);
        Ready(bits)
    }

    /// What these bits of epoll's say; others are not asked for.
    pub(crate) const fn from_epoll(bits: u32) -> Ready {
        Ready(bits as u16)
    }

    /// These and those.
    pub(crate) const fn or(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }

    /// Whether it is just these.
    pub(crate) const fn is(self, other: Ready) -> bool {
        self.0 == other.0
    }

    /// Whether any of these is there.
    pub(crate) fn any(self, of: Ready) -> bool {
        self.0 & of.0 != 0
    }

    /// Takes these out; whether any was there.
    pub(crate) fn take(&mut self, these: Ready) -> bool {
        let any = self.any(these);
        self.0 &= !these.0;
        any
    }

    /// What a foreign registration with this interest is told.
    pub(crate) fn told(self, interest: Interest) -> Readiness {
        let mut told = Readiness::default();
        let table = [
            (Self::READ | Self::READ_END, Interest::READABLE, Readiness::READABLE),
            (Self::WRITE, Interest::WRITABLE, Readiness::WRITABLE),
            (Self::PRIORITY, Interest::PRIORITY, Readiness::PRIORITY),
            (Self::ERROR, Interest::NONE, Readiness::ERROR),
            (Self::HANG_UP, Interest::NONE, Readiness::HANG_UP),
        ];
        for (ready, wanted, tell) in table {
            if self.any(ready) && interest.contains(wanted) {
                told |= tell;
            }
        }
        told
    }
}

impl std::ops::BitOr for Ready {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl std::ops::BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ready({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l08_only_what_is_of_interest_is_told_but_errors_and_hang_ups_always() {
        let all = Ready::READ | Ready::WRITE | Ready::PRIORITY | Ready::ERROR | Ready::HANG_UP;
        let always = Readiness::ERROR | Readiness::HANG_UP;
        assert_eq!(all.told(Interest::WRITABLE), Readiness::WRITABLE | always);
        assert_eq!(all.told(Interest::READABLE), Readiness::READABLE | always);
        assert_eq!(all.told(Interest::PRIORITY), Readiness::PRIORITY | always);
        assert_eq!(Ready::READ_END.told(Interest::READABLE), Readiness::READABLE);
        assert!(Ready::READ.told(Interest::WRITABLE).is_empty());
    }
}
