//! What the readiness driver asks of the kernel's set of watched descriptors.
//!
//! A selector supplies:
//! - a set that is level-triggered: what is ready is reported by every wait until it is dealt with. If the
//!   selector [can](Selector::SUPPORTS_EDGES), a descriptor that asks for it is [edge-triggered](WatchedEvents::edge);
//! - of an edge-triggered descriptor, all that is ready whenever it is added or modified, and whenever
//!   something that it is watched for begins;
//! - errors and hang-ups whatever the interest is, an empty one included;
//! - the end of the peer's sending ([`ReadyFlags::READ_END`]) together with readability, or alone if asked for:
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
pub(crate) struct WatchedEvents {
    pub(crate) interest: Interest,
    /// The end of the peer's sending (EPOLLRDHUP), also without readability.
    pub(crate) read_end: bool,
    /// Readiness is reported once, when it begins (EPOLLET), and not for as long as it lasts.
    pub(crate) edge: bool,
}

impl WatchedEvents {
    /// True if the end of the peer's sending is to be told.
    pub(crate) fn includes_read_end(self) -> bool {
        self.read_end || self.interest.contains(Interest::READABLE)
    }

    /// True if whoever is watched for this is told everything that `wanted` asks for.
    pub(crate) fn covers(self, wanted: WatchedEvents) -> bool {
        let read_end = self.includes_read_end() || !wanted.includes_read_end();
        self.interest.contains(wanted.interest) && read_end && self.edge == wanted.edge
    }
}

impl From<Interest> for WatchedEvents {
    fn from(interest: Interest) -> Self {
        Self { interest, read_end: false, edge: false }
    }
}

impl fmt::Debug for WatchedEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = if self.edge { ", edges" } else { "" };
        write!(f, "{:?}{}{edge}", self.interest, if self.read_end { " and the end" } else { "" })
    }
}

/// A set of watched descriptors. See the [module's documentation](self).
pub(crate) trait Selector: Sized + Send {
    /// A descriptor that is closed, and has no duplicate, leaves the set by itself.
    const FORGETS_CLOSED: bool;

    /// The set can be edge-triggered. One that cannot takes no notice of [`WatchedEvents::edge`].
    const SUPPORTS_EDGES: bool;

    /// A new set like this one, with the waker in it and nothing else.
    fn reopen(&self, waker: &Arc<Waker>) -> io::Result<Self>;

    /// Begins to watch a descriptor that is not in the set.
    fn add(&mut self, fd: BorrowedFd<'_>, token: Token, watch: WatchedEvents) -> io::Result<()>;

    /// Changes what a descriptor in the set is watched for.
    fn modify(&mut self, fd: BorrowedFd<'_>, token: Token, watch: WatchedEvents) -> io::Result<()>;

    /// Ends the watching of a descriptor. There is nothing to do about a failure: it is not watched
    /// under this name.
    fn remove(&mut self, fd: BorrowedFd<'_>, token: Token);

    /// Waits, without limit or for so long; returns how many signals there are.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize>;

    /// Returns a signal of the last wait, read where the kernel has written it.
    fn event_at(&self, at: usize) -> SelectorEvent;

    /// Returns the first `n` signals of the last wait.
    fn events(&self, n: usize) -> impl Iterator<Item = SelectorEvent>;
}

/// What a wait has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectorEvent {
    /// The waker was used.
    Woken,
    /// A descriptor is ready.
    Ready(Token, ReadyFlags),
}

/// What the kernel says of a descriptor. The bits are epoll's, so that its words need no translation.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadyFlags(u16);

impl ReadyFlags {
    pub(crate) const NONE: ReadyFlags = ReadyFlags(0);
    /// There is something to read, or its end.
    pub(crate) const READ: ReadyFlags = ReadyFlags(1);
    /// There is something urgent.
    pub(crate) const PRIORITY: ReadyFlags = ReadyFlags(1 << 1);
    /// There is room to write, or a connection was made.
    pub(crate) const WRITE: ReadyFlags = ReadyFlags(1 << 2);
    /// There is an error to be fetched.
    pub(crate) const ERROR: ReadyFlags = ReadyFlags(1 << 3);
    /// Both directions are shut.
    pub(crate) const HANG_UP: ReadyFlags = ReadyFlags(1 << 4);
    /// It is not an open descriptor. Not a word of epoll's.
    pub(crate) const INVALID: ReadyFlags = ReadyFlags(1 << 5);
    /// The peer will send no more: behind what there is to read comes the end.
    pub(crate) const READ_END: ReadyFlags = ReadyFlags(1 << 13);

    /// Each bit for which `set` says so.
    pub(crate) fn from_table<T: Copy>(
        table: &[(T, ReadyFlags)],
        set: impl Fn(T) -> bool,
    ) -> ReadyFlags {
        let bits =
            table.iter().filter(|(flag, _)| set(*flag)).fold(0, |bits, (_, bit)| bits | bit.0);
        ReadyFlags(bits)
    }

    /// What these bits of epoll's say; others are not asked for.
    pub(crate) const fn from_epoll(bits: u32) -> ReadyFlags {
        ReadyFlags(bits as u16)
    }

    /// These and those.
    pub(crate) const fn or(self, other: ReadyFlags) -> ReadyFlags {
        ReadyFlags(self.0 | other.0)
    }

    /// Whether it is just these.
    pub(crate) const fn equals(self, other: ReadyFlags) -> bool {
        self.0 == other.0
    }

    /// Whether any of these is there.
    pub(crate) fn contains_any(self, of: ReadyFlags) -> bool {
        self.0 & of.0 != 0
    }

    /// Takes these out; whether any was there.
    pub(crate) fn take(&mut self, these: ReadyFlags) -> bool {
        let any = self.contains_any(these);
        self.0 &= !these.0;
        any
    }

    /// What a foreign registration with this interest is told.
    pub(crate) fn readiness_for(self, interest: Interest) -> Readiness {
        let mut told = Readiness::default();
        let table = [
            (Self::READ | Self::READ_END, Interest::READABLE, Readiness::READABLE),
            (Self::WRITE, Interest::WRITABLE, Readiness::WRITABLE),
            (Self::PRIORITY, Interest::PRIORITY, Readiness::PRIORITY),
            (Self::ERROR, Interest::NONE, Readiness::ERROR),
            (Self::HANG_UP, Interest::NONE, Readiness::HANG_UP),
        ];
        for (ready, wanted, tell) in table {
            if self.contains_any(ready) && interest.contains(wanted) {
                told |= tell;
            }
        }
        told
    }
}

impl std::ops::BitOr for ReadyFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl std::ops::BitOrAssign for ReadyFlags {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for ReadyFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadyFlags({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l08_only_what_is_of_interest_is_told_but_errors_and_hang_ups_always() {
        let all = ReadyFlags::READ
            | ReadyFlags::WRITE
            | ReadyFlags::PRIORITY
            | ReadyFlags::ERROR
            | ReadyFlags::HANG_UP;
        let always = Readiness::ERROR | Readiness::HANG_UP;
        assert_eq!(all.readiness_for(Interest::WRITABLE), Readiness::WRITABLE | always);
        assert_eq!(all.readiness_for(Interest::READABLE), Readiness::READABLE | always);
        assert_eq!(all.readiness_for(Interest::PRIORITY), Readiness::PRIORITY | always);
        assert_eq!(ReadyFlags::READ_END.readiness_for(Interest::READABLE), Readiness::READABLE);
        assert!(ReadyFlags::READ.readiness_for(Interest::WRITABLE).is_empty());
    }
}
