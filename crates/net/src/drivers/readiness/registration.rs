//! What the driver knows of one token.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use waterwheel_channel::Token;
use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Readiness};

use super::datagram_endpoint::{DatagramBuffer, DatagramEndpoint};
use super::read_block::ReadBlock;
use super::stream_endpoint::{ReadOutcome, StreamEndpoint};
use crate::drivers::selector::{ReadyFlags, Selector, WatchedEvents};
use crate::foreign::ForeignFd;
use crate::sockets::socket::Socket;

/// A socket or a foreign descriptor, and its place in the kernel's set and in the driver's lists.
pub(super) struct Registration {
    pub(super) io: RegisteredIo,
    /// What it is watched for; `None`: it is not in the kernel's set.
    watched: Option<WatchedEvents>,
    /// An edge came that nobody waits for: what it is watched for is to be just what it wants.
    must_narrow: bool,
    /// It is in the list of those whose watching may have to change.
    pub(super) is_in_changes: bool,
    pub(super) visit: Visit,
}

/// Where a token that is to have a turn is named. In one place at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    None,
    /// By a signal of the selector, in this round.
    Reported,
    /// In the driver's list of those that have a turn at the end of this round, or in the one for the next.
    Queued,
}

/// Where reads go: the driver's, lent to whoever reads.
pub(super) struct ReadBuffers<'a> {
    pub(super) block: &'a mut ReadBlock,
    pub(super) datagrams: &'a mut DatagramBuffer,
}

pub(super) enum RegisteredIo {
    Stream(StreamEndpoint),
    /// In a box: there are few of them, and they are larger.
    Datagram(Box<DatagramEndpoint>),
    Foreign(ForeignEndpoint),
}

impl Registration {
    pub(super) fn new(io: RegisteredIo) -> Self {
        Self { io, watched: None, must_narrow: false, is_in_changes: false, visit: Visit::None }
    }

    /// True if the kernel's set is not as it should be. A stream or listener that is edge-triggered may be watched
    /// for more than it wants: what it is told is kept for when it wants it, and costs at most [one](Self::must_narrow)
    /// turn. A socket for datagrams may not: the kernel is asked anew for each write that finds no room, and of
    /// many receivers it does not say later that they have some.
    pub(super) fn is_changed(&self) -> bool {
        match (self.watched, self.io.wanted_events()) {
            (Some(watched), Some(wanted)) if self.io.may_over_watch() => {
                !watched.covers(wanted) || self.must_narrow && watched != wanted
            }
            (watched, wanted) => watched != wanted,
        }
    }

    /// Makes the kernel's set as it should be.
    pub(super) fn apply<S: Selector>(&mut self, token: Token, set: &mut S) -> io::Result<()> {
        if !self.is_changed() {
            return Ok(());
        }
        let (fd, wanted) = (self.io.fd(), self.io.wanted_events());
        match (self.watched, wanted) {
            (None, Some(new)) => set.add(fd, token, new)?,
            (Some(_), Some(new)) => set.modify(fd, token, new)?,
            (Some(_), None) => set.remove(fd, token),
            (None, None) => {}
        }
        (self.watched, self.must_narrow) = (wanted, false);
        Ok(())
    }

    /// Notes what the kernel says; returns whether the token is to have a turn. If not, the kernel is not to say so
    /// again.
    #[inline]
    pub(super) fn on_ready(&mut self, ready: ReadyFlags) -> bool {
        let needs_visit = self.io.on_ready(ready);
        self.must_narrow |= !needs_visit;
        needs_visit
    }

    /// Goes over into another set, which it is not in yet.
    pub(super) fn move_to<S: Selector>(&mut self, token: Token, set: &mut S) -> io::Result<()> {
        self.watched = None;
        self.apply(token, set)
    }

    /// It is not in the kernel's set any more, and cannot be: `Failed` is owed. Its number may be
    /// somebody else's by now, so the set is left alone.
    pub(super) fn mark_lost(&mut self, error: io::Error) {
        self.watched = None;
        self.io.on_watch_refused(error);
    }

    /// Takes back a change of a foreign registration's interest.
    pub(super) fn restore_interest(&mut self, before: Interest) {
        if let RegisteredIo::Foreign(foreign) = &mut self.io {
            foreign.interest = before;
        }
    }

    /// Takes it out of the kernel's set, before it is closed: a duplicate of the descriptor would keep it
    /// there. Where there is none the close does that, and saves a system call.
    pub(super) fn remove_before_close<S: Selector>(mut self, token: Token, set: &mut S) {
        if S::FORGETS_CLOSED && self.io.socket().is_some_and(Socket::is_sole) {
            return;
        }
        self.remove_from_set(token, set);
    }

    /// Takes it out of the kernel's set.
    pub(super) fn remove_from_set<S: Selector>(&mut self, token: Token, set: &mut S) {
        if self.watched.take().is_some() {
            set.remove(self.io.fd(), token);
        }
    }
}

impl RegisteredIo {
    /// What it is, for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            RegisteredIo::Stream(_) => "a stream or listener",
            RegisteredIo::Datagram(_) => "a socket for datagrams",
            RegisteredIo::Foreign(_) => "a foreign descriptor",
        }
    }

    /// The socket, if it is one.
    pub(super) fn socket(&self) -> Option<&Socket> {
        match self {
            RegisteredIo::Stream(endpoint) => Some(endpoint.socket()),
            RegisteredIo::Datagram(endpoint) => Some(&endpoint.socket().socket),
            RegisteredIo::Foreign(_) => None,
        }
    }

    /// Turns reads on or off; of what is no socket, nothing.
    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.set_read(plan),
            RegisteredIo::Datagram(endpoint) => endpoint.set_read(plan),
            RegisteredIo::Foreign(_) => {}
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.fd(),
            RegisteredIo::Datagram(endpoint) => endpoint.fd(),
            RegisteredIo::Foreign(foreign) => foreign.source.as_fd(),
        }
    }

    fn wanted_events(&self) -> Option<WatchedEvents> {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.wanted_events(),
            RegisteredIo::Datagram(endpoint) => endpoint.wanted_events(),
            RegisteredIo::Foreign(foreign) => {
                (!foreign.is_broken).then_some(foreign.interest.into())
            }
        }
    }

    fn may_over_watch(&self) -> bool {
        matches!(self, RegisteredIo::Stream(endpoint) if endpoint.is_edge_triggered())
    }

    #[inline]
    fn on_ready(&mut self, ready: ReadyFlags) -> bool {
        // Most are streams: they are told apart from the rest, and the rest only then from each other.
        if let RegisteredIo::Stream(endpoint) = self {
            return endpoint.on_ready(ready);
        }
        match self {
            RegisteredIo::Datagram(endpoint) => return endpoint.on_ready(ready),
            RegisteredIo::Foreign(foreign) => foreign.ready |= ready,
            RegisteredIo::Stream(_) => {}
        }
        true
    }

    /// The kernel refuses to watch it: `Failed` is owed.
    pub(super) fn on_watch_refused(&mut self, error: io::Error) {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.break_with(error),
            RegisteredIo::Datagram(endpoint) => endpoint.break_with(error),
            RegisteredIo::Foreign(foreign) => foreign.break_with(error),
        }
    }

    /// True if it may have something more to say in this turn.
    #[inline]
    pub(super) fn is_visit_open(&self) -> bool {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.is_visit_open(),
            RegisteredIo::Datagram(endpoint) => endpoint.is_visit_open(),
            RegisteredIo::Foreign(foreign) => foreign.has_work(),
        }
    }

    /// True if a turn would find something to do, by what is known now.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.has_work(),
            RegisteredIo::Datagram(endpoint) => endpoint.has_work(),
            RegisteredIo::Foreign(foreign) => foreign.has_work(),
        }
    }

    /// Ends its turn; returns whether it is to have another one, in the next round.
    #[inline]
    pub(super) fn end_visit(&mut self) -> bool {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.end_visit(),
            RegisteredIo::Datagram(endpoint) => endpoint.end_visit(),
            RegisteredIo::Foreign(foreign) => foreign.has_work(),
        }
    }

    /// Returns how many [steps](Self::next) one round may take.
    pub(super) fn max_steps(&self) -> u32 {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.max_steps(),
            RegisteredIo::Datagram(endpoint) => endpoint.max_steps(),
            RegisteredIo::Foreign(_) => 1,
        }
    }

    /// Ends its round, whatever is left of it; returns the event that is owed then, if there is one.
    #[cold]
    pub(super) fn cut_round(&mut self, token: Token) -> Option<IoEvent> {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.cut_round(token),
            RegisteredIo::Datagram(endpoint) => endpoint.cut_round(token),
            RegisteredIo::Foreign(foreign) => {
                foreign.ready = ReadyFlags::NONE;
                None
            }
        }
    }

    /// The next event of this round, if there is one; `outcome` is what came of a read of it.
    pub(super) fn next(
        &mut self,
        token: Token,
        outcome: Option<ReadOutcome>,
        buffers: ReadBuffers<'_>,
    ) -> Option<IoEvent> {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.next(token, outcome, buffers.block),
            RegisteredIo::Datagram(endpoint) => endpoint.next(token, buffers.datagrams),
            RegisteredIo::Foreign(foreign) => foreign.next(token),
        }
    }
}

/// A foreign descriptor.
pub(super) struct ForeignEndpoint {
    source: ForeignFd,
    interest: Interest,
    ready: ReadyFlags,
    /// `Failed` is owed.
    failure: Option<io::Error>,
    /// It cannot be watched any longer.
    is_broken: bool,
}

impl ForeignEndpoint {
    pub(super) fn new(source: ForeignFd, interest: Interest) -> io::Result<Self> {
        let interest = check_not_empty(interest)?;
        Ok(Self { source, interest, ready: ReadyFlags::NONE, failure: None, is_broken: false })
    }

    /// Changes the interest; returns the one before.
    pub(super) fn set_interest(&mut self, interest: Interest) -> io::Result<Interest> {
        Ok(std::mem::replace(&mut self.interest, check_not_empty(interest)?))
    }

    fn has_work(&self) -> bool {
        self.ready != ReadyFlags::NONE || self.failure.is_some()
    }

    /// Returns what is to be told of its readiness, if it has not failed. The interest may have changed since the
    /// kernel was asked.
    #[inline]
    pub(super) fn take_readiness(&mut self) -> Option<Readiness> {
        if self.ready.contains_any(ReadyFlags::INVALID) || self.failure.is_some() {
            return None;
        }
        let told = std::mem::take(&mut self.ready).readiness_for(self.interest);
        (!told.is_empty()).then_some(told)
    }

    fn next(&mut self, token: Token) -> Option<IoEvent> {
        if let Some(told) = self.take_readiness() {
            return Some(IoEvent::Foreign(token, told));
        }
        if std::mem::take(&mut self.ready).contains_any(ReadyFlags::INVALID) {
            self.break_with(rustix::io::Errno::BADF.into());
        }
        self.failure.take().map(|error| IoEvent::Failed(token, error))
    }

    fn break_with(&mut self, error: io::Error) {
        self.is_broken = true;
        self.failure = Some(error);
    }
}

fn check_not_empty(interest: Interest) -> io::Result<Interest> {
    if interest.is_empty() {
        let what =
            "the interest of a foreign registration is empty: it would never be told anything";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    Ok(interest)
}
