//! The interface between the readiness driver and the kernel's set of watched descriptors.
//!
//! A selector supplies:
//! - a level-triggered set: every wait reports a ready descriptor until the readiness is consumed. If the
//!   selector [supports edges](Selector::SUPPORTS_EDGES), a descriptor may be added
//!   [edge-triggered](WatchedEvents::edge) instead (EPOLLET);
//! - for an edge-triggered descriptor, all current readiness after each add or modify, and an event whenever a
//!   watched condition begins;
//! - errors and hang-ups (EPOLLERR, EPOLLHUP) for every interest, the empty one included;
//! - the end of the peer's sending ([`ReadyFlags::READ_END`], EPOLLRDHUP) together with readability, or alone
//!   on request. Every wait then reports the end, so the driver withdraws the request after the first report;
//! - identity by token: the selector returns the bits it was given, never a descriptor number, which may belong
//!   to another file by then. The driver checks that the token is still registered;
//! - a wait in nanoseconds, or in the kernel's coarser resolution, that never ends before its timeout. One wait
//!   is one system call without a retry: EINTR is returned like any other error;
//! - the [`Waker`] as a member of the set from the moment it is opened;
//! - an event buffer that is reused, and grows when a wait fills it.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::Token;
use waterwheel_channel::driver::{Interest, Readiness};

use crate::drivers::waker::Waker;

/// The events for which a descriptor is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WatchedEvents {
    pub(crate) interest: Interest,
    /// EPOLLRDHUP without EPOLLIN: the end of the peer's sending is reported although reads are off.
    pub(crate) read_end: bool,
    /// EPOLLET: readiness is reported once, when it begins, instead of by every wait.
    pub(crate) edge: bool,
}

impl WatchedEvents {
    /// True if the end of the peer's sending (EPOLLRDHUP) is reported.
    pub(crate) fn includes_read_end(self) -> bool {
        self.read_end || self.interest.contains(Interest::READABLE)
    }

    /// True if a descriptor watched for `self` receives every report that `wanted` asks for.
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
        let edge = if self.edge { " | edge" } else { "" };
        write!(f, "{:?}{}{edge}", self.interest, if self.read_end { " | read end" } else { "" })
    }
}

/// A set of watched descriptors. See the [module documentation](self).
pub(crate) trait Selector: Sized + Send {
    /// True if a closed descriptor without duplicates leaves the set by itself.
    const FORGETS_CLOSED: bool;

    /// True if descriptors can be edge-triggered. Otherwise the selector ignores [`WatchedEvents::edge`].
    const SUPPORTS_EDGES: bool;

    /// Opens a new set of the same kind that holds the waker and nothing else.
    fn reopen(&self, waker: &Arc<Waker>) -> io::Result<Self>;

    /// Begins to watch a descriptor that is not in the set.
    fn add(&mut self, fd: BorrowedFd<'_>, token: Token, watch: WatchedEvents) -> io::Result<()>;

    /// Changes the events for which a descriptor in the set is watched.
    fn modify(&mut self, fd: BorrowedFd<'_>, token: Token, watch: WatchedEvents) -> io::Result<()>;

    /// Stops watching a descriptor. A failure is ignored: it means that the descriptor is not watched under
    /// this token.
    fn remove(&mut self, fd: BorrowedFd<'_>, token: Token);

    /// Waits for events, at most for `timeout`; returns the number of events.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize>;

    /// Returns one event of the last wait, read from the buffer that the kernel has written.
    fn event_at(&self, at: usize) -> SelectorEvent;

    /// Returns the first `n` events of the last wait.
    fn events(&self, n: usize) -> impl Iterator<Item = SelectorEvent>;
}

/// One event of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectorEvent {
    /// The waker was written to.
    Woken,
    /// A descriptor is ready.
    Ready(Token, ReadyFlags),
}

/// The readiness of a descriptor, as the kernel reports it. The bits are those of epoll, so that epoll events
/// need no translation.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadyFlags(u16);

impl ReadyFlags {
    pub(crate) const NONE: ReadyFlags = ReadyFlags(0);
    /// EPOLLIN: data to read, a connection to accept, or the end of the stream.
    pub(crate) const READ: ReadyFlags = ReadyFlags(1);
    /// EPOLLPRI: urgent data.
    pub(crate) const PRIORITY: ReadyFlags = ReadyFlags(1 << 1);
    /// EPOLLOUT: room to write, or a connect that has finished.
    pub(crate) const WRITE: ReadyFlags = ReadyFlags(1 << 2);
    /// EPOLLERR: a pending error, or an entry in the error queue.
    pub(crate) const ERROR: ReadyFlags = ReadyFlags(1 << 3);
    /// EPOLLHUP: both directions are shut down.
    pub(crate) const HANG_UP: ReadyFlags = ReadyFlags(1 << 4);
    /// POLLNVAL: the descriptor is not open. epoll has no such flag.
    pub(crate) const INVALID: ReadyFlags = ReadyFlags(1 << 5);
    /// EPOLLRDHUP: the peer has shut down its sending side; buffered data may still precede the end of the stream.
    pub(crate) const READ_END: ReadyFlags = ReadyFlags(1 << 13);

    /// Returns the flags of the table rows for which `set` returns true.
    pub(crate) fn from_table<T: Copy>(
        table: &[(T, ReadyFlags)],
        set: impl Fn(T) -> bool,
    ) -> ReadyFlags {
        let bits =
            table.iter().filter(|(flag, _)| set(*flag)).fold(0, |bits, (_, bit)| bits | bit.0);
        ReadyFlags(bits)
    }

    /// Returns the flags for epoll's event bits. Bits above the sixteenth are never requested.
    pub(crate) const fn from_epoll(bits: u32) -> ReadyFlags {
        ReadyFlags(bits as u16)
    }

    /// Returns the union of two sets of flags.
    pub(crate) const fn or(self, other: ReadyFlags) -> ReadyFlags {
        ReadyFlags(self.0 | other.0)
    }

    /// True if both sets of flags are equal; `==` is not const.
    pub(crate) const fn equals(self, other: ReadyFlags) -> bool {
        self.0 == other.0
    }

    /// True if `self` contains at least one of these flags.
    pub(crate) fn contains_any(self, flags: ReadyFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Removes these flags; returns true if at least one was set.
    pub(crate) fn take(&mut self, flags: ReadyFlags) -> bool {
        let any = self.contains_any(flags);
        self.0 &= !flags.0;
        any
    }

    /// Returns the readiness reported to a foreign registration with this interest.
    pub(crate) fn readiness_for(self, interest: Interest) -> Readiness {
        let mut readiness = Readiness::default();
        let table = [
            (Self::READ | Self::READ_END, Interest::READABLE, Readiness::READABLE),
            (Self::WRITE, Interest::WRITABLE, Readiness::WRITABLE),
            (Self::PRIORITY, Interest::PRIORITY, Readiness::PRIORITY),
            (Self::ERROR, Interest::NONE, Readiness::ERROR),
            (Self::HANG_UP, Interest::NONE, Readiness::HANG_UP),
        ];
        for (ready, wanted, reported) in table {
            if self.contains_any(ready) && interest.contains(wanted) {
                readiness |= reported;
            }
        }
        readiness
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
    fn l08_readiness_is_limited_to_the_interest_except_errors_and_hang_ups() {
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
