//! The driver's record of one token.

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

/// A socket or a foreign descriptor, with its state in the kernel's set and in the driver's lists.
pub(super) struct Registration {
    pub(super) io: RegisteredIo,
    /// The events the kernel watches for; `None` if the descriptor is not in the kernel's set.
    watched: Option<WatchedEvents>,
    /// True after an edge that the endpoint does not wait for: the next change narrows `watched` to the wanted
    /// events.
    must_narrow: bool,
    /// True while the token is in the driver's list of changes.
    pub(super) is_in_changes: bool,
    pub(super) visit: Visit,
}

/// The list in which a token waits for a visit, if any. A token is in at most one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    None,
    /// A selector event named the token: the token is visited in this round.
    Reported,
    /// In the driver's `queue`, visited at the end of this round, or in `deferred`, visited in the next one.
    Queued,
}

/// The driver's read buffers, lent to the endpoint that reads.
pub(super) struct ReadBuffers<'a> {
    pub(super) block: &'a mut ReadBlock,
    pub(super) datagrams: &'a mut DatagramBuffer,
}

/// The socket or descriptor that is registered under a token.
pub(super) enum RegisteredIo {
    Stream(StreamEndpoint),
    /// Boxed: datagram sockets are few, and their endpoint is larger.
    Datagram(Box<DatagramEndpoint>),
    Foreign(ForeignEndpoint),
}

impl Registration {
    pub(super) fn new(io: RegisteredIo) -> Self {
        Self { io, watched: None, must_narrow: false, is_in_changes: false, visit: Visit::None }
    }

    /// True if the kernel's set has to change. An edge-triggered stream or listener may be watched for more
    /// events than it wants: an unwanted edge is recorded for later, and costs at most [one](Self::must_narrow)
    /// visit. A datagram socket may not: each write that finds no room must modify the set again, because for
    /// many receivers the kernel does not report room later.
    pub(super) fn is_changed(&self) -> bool {
        match (self.watched, self.io.wanted_events()) {
            (Some(watched), Some(wanted)) if self.io.may_over_watch() => {
                !watched.covers(wanted) || self.must_narrow && watched != wanted
            }
            (watched, wanted) => watched != wanted,
        }
    }

    /// Brings the kernel's set up to date.
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

    /// Records readiness reported by the kernel; returns true if the token needs a visit. Otherwise the next
    /// change of the set stops such reports.
    #[inline]
    pub(super) fn on_ready(&mut self, ready: ReadyFlags) -> bool {
        let needs_visit = self.io.on_ready(ready);
        self.must_narrow |= !needs_visit;
        needs_visit
    }

    /// Adds the registration to another set that does not contain the descriptor.
    pub(super) fn move_to<S: Selector>(&mut self, token: Token, set: &mut S) -> io::Result<()> {
        self.watched = None;
        self.apply(token, set)
    }

    /// Records that the descriptor has left the kernel's set and cannot return: `Failed` is owed. The
    /// descriptor number may belong to another file by now, so the set is not touched.
    pub(super) fn mark_lost(&mut self, error: io::Error) {
        self.watched = None;
        self.io.on_watch_refused(error);
    }

    /// Restores the interest of a foreign registration after a refused change.
    pub(super) fn restore_interest(&mut self, before: Interest) {
        if let RegisteredIo::Foreign(foreign) = &mut self.io {
            foreign.interest = before;
        }
    }

    /// Removes the descriptor from the kernel's set before it is closed: an open duplicate would keep the
    /// entry there. Without a duplicate the close removes the entry, which saves a system call.
    pub(super) fn remove_before_close<S: Selector>(mut self, token: Token, set: &mut S) {
        if S::FORGETS_CLOSED && self.io.socket().is_some_and(Socket::is_sole) {
            return;
        }
        self.remove_from_set(token, set);
    }

    /// Removes the descriptor from the kernel's set.
    pub(super) fn remove_from_set<S: Selector>(&mut self, token: Token, set: &mut S) {
        if self.watched.take().is_some() {
            set.remove(self.io.fd(), token);
        }
    }
}

impl RegisteredIo {
    /// Returns a description for error messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            RegisteredIo::Stream(_) => "a stream or listener",
            RegisteredIo::Datagram(_) => "a socket for datagrams",
            RegisteredIo::Foreign(_) => "a foreign descriptor",
        }
    }

    /// Returns the socket; `None` for a foreign descriptor.
    pub(super) fn socket(&self) -> Option<&Socket> {
        match self {
            RegisteredIo::Stream(endpoint) => Some(endpoint.socket()),
            RegisteredIo::Datagram(endpoint) => Some(&endpoint.socket().socket),
            RegisteredIo::Foreign(_) => None,
        }
    }

    /// Turns reads on or off; does nothing for a foreign descriptor.
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

    /// True if the kernel may watch for more events than wanted.
    fn may_over_watch(&self) -> bool {
        matches!(self, RegisteredIo::Stream(endpoint) if endpoint.is_edge_triggered())
    }

    #[inline]
    fn on_ready(&mut self, ready: ReadyFlags) -> bool {
        // Most registrations are streams, so streams are tested first.
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

    /// Records that the kernel refuses to watch the descriptor: `Failed` is owed.
    pub(super) fn on_watch_refused(&mut self, error: io::Error) {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.break_with(error),
            RegisteredIo::Datagram(endpoint) => endpoint.break_with(error),
            RegisteredIo::Foreign(foreign) => foreign.break_with(error),
        }
    }

    /// True while this visit may still produce an event.
    #[inline]
    pub(super) fn is_visit_open(&self) -> bool {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.is_visit_open(),
            RegisteredIo::Datagram(endpoint) => endpoint.is_visit_open(),
            RegisteredIo::Foreign(foreign) => foreign.has_work(),
        }
    }

    /// True if a visit would find something to do, by the recorded readiness.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.has_work(),
            RegisteredIo::Datagram(endpoint) => endpoint.has_work(),
            RegisteredIo::Foreign(foreign) => foreign.has_work(),
        }
    }

    /// Ends the visit; returns true if the token needs another one in the next round.
    #[inline]
    pub(super) fn end_visit(&mut self) -> bool {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.end_visit(),
            RegisteredIo::Datagram(endpoint) => endpoint.end_visit(),
            RegisteredIo::Foreign(foreign) => foreign.has_work(),
        }
    }

    /// Returns the maximum number of [steps](Self::next) in one round.
    pub(super) fn max_steps(&self) -> u32 {
        match self {
            RegisteredIo::Stream(endpoint) => endpoint.max_steps(),
            RegisteredIo::Datagram(endpoint) => endpoint.max_steps(),
            RegisteredIo::Foreign(_) => 1,
        }
    }

    /// Ends the round early; returns the event that is owed then, if any.
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

    /// Returns the next event of this round; `outcome` is the result of a read that the caller has made.
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

/// A registered foreign descriptor.
pub(super) struct ForeignEndpoint {
    source: ForeignFd,
    interest: Interest,
    ready: ReadyFlags,
    /// `Failed` with this error is owed.
    failure: Option<io::Error>,
    /// True if the descriptor can no longer be watched.
    is_broken: bool,
}

impl ForeignEndpoint {
    pub(super) fn new(source: ForeignFd, interest: Interest) -> io::Result<Self> {
        let interest = check_not_empty(interest)?;
        Ok(Self { source, interest, ready: ReadyFlags::NONE, failure: None, is_broken: false })
    }

    /// Changes the interest; returns the previous one.
    pub(super) fn set_interest(&mut self, interest: Interest) -> io::Result<Interest> {
        Ok(std::mem::replace(&mut self.interest, check_not_empty(interest)?))
    }

    fn has_work(&self) -> bool {
        self.ready != ReadyFlags::NONE || self.failure.is_some()
    }

    /// Takes the readiness to report; `None` after a failure or if nothing of interest is ready. The interest
    /// may have changed since the kernel was asked.
    #[inline]
    pub(super) fn take_readiness(&mut self) -> Option<Readiness> {
        if self.ready.contains_any(ReadyFlags::INVALID) || self.failure.is_some() {
            return None;
        }
        let readiness = std::mem::take(&mut self.ready).readiness_for(self.interest);
        (!readiness.is_empty()).then_some(readiness)
    }

    fn next(&mut self, token: Token) -> Option<IoEvent> {
        if let Some(readiness) = self.take_readiness() {
            return Some(IoEvent::Foreign(token, readiness));
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
        let what = "the interest of a foreign registration is empty: it would never be called; name at least one event";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    Ok(interest)
}
