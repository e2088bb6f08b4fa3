//! What the driver knows of one token.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use waterwheel_channel::Token;
use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Readiness};

use super::datagram_endpoint::{DatagramEndpoint, Inbox};
use super::endpoint::{Endpoint, Taken};
use super::read_block::ReadBlock;
use crate::drivers::selector::{Ready, Selector, Watch};
use crate::foreign::Descriptor;
use crate::sockets::socket::Socket;

/// A socket or a foreign descriptor, and its place in the kernel's set and in the driver's lists.
pub(super) struct Registration {
    pub(super) subject: Subject,
    /// What it is watched for; `None`: it is not in the kernel's set.
    watched: Option<Watch>,
    /// An edge came that nobody waits for: what it is watched for is to be just what it wants.
    excess: bool,
    /// It is in the list of those whose watching may have to change.
    pub(super) changing: bool,
    pub(super) turn: Turn,
}

/// Where a token that is to have a turn is named. In one place at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    /// By a signal of the selector, in this round.
    Signalled,
    /// In the driver's list of those that have a turn at the end of this round, or in the one for the next.
    Listed,
}

/// Where reads go: the driver's, lent to whoever reads.
pub(super) struct Rooms<'a> {
    pub(super) block: &'a mut ReadBlock,
    pub(super) inbox: &'a mut Inbox,
}

pub(super) enum Subject {
    Socket(Endpoint),
    /// In a box: there are few of them, and they are larger.
    Datagrams(Box<DatagramEndpoint>),
    Foreign(Watched),
}

impl Registration {
    pub(super) fn new(subject: Subject) -> Self {
        Self { subject, watched: None, excess: false, changing: false, turn: Turn::None }
    }

    /// True if the kernel's set is not as it should be. A stream or listener that is edge-triggered may be watched
    /// for more than it wants: what it is told is kept for when it wants it, and costs at most [one](Self::excess)
    /// turn. A socket for datagrams may not: the kernel is asked anew for each write that finds no room, and of
    /// many receivers it does not say later that they have some.
    pub(super) fn is_changed(&self) -> bool {
        match (self.watched, self.subject.wanted()) {
            (Some(watched), Some(wanted)) if self.subject.may_be_watched_for_more() => {
                !watched.covers(wanted) || self.excess && watched != wanted
            }
            (watched, wanted) => watched != wanted,
        }
    }

    /// Makes the kernel's set as it should be.
    pub(super) fn apply<S: Selector>(&mut self, token: Token, set: &mut S) -> io::Result<()> {
        if !self.is_changed() {
            return Ok(());
        }
        let (fd, wanted) = (self.subject.fd(), self.subject.wanted());
        match (self.watched, wanted) {
            (None, Some(new)) => set.add(fd, token, new)?,
            (Some(_), Some(new)) => set.modify(fd, token, new)?,
            (Some(_), None) => set.remove(fd, token),
            (None, None) => {}
        }
        (self.watched, self.excess) = (wanted, false);
        Ok(())
    }

    /// Notes what the kernel says; returns whether the token is to have a turn. If not, the kernel is not to say so
    /// again.
    #[inline]
    pub(super) fn on_ready(&mut self, ready: Ready) -> bool {
        let has_turn = self.subject.on_ready(ready);
        self.excess |= !has_turn;
        has_turn
    }

    /// Goes over into another set, which it is not in yet.
    pub(super) fn move_to<S: Selector>(&mut self, token: Token, set: &mut S) -> io::Result<()> {
        self.watched = None;
        self.apply(token, set)
    }

    /// It is not in the kernel's set any more, and cannot be: `Failed` is owed. Its number may be
    /// somebody else's by now, so the set is left alone.
    pub(super) fn lose(&mut self, error: io::Error) {
        self.watched = None;
        self.subject.on_refused(error);
    }

    /// Takes back a change of a foreign registration's interest.
    pub(super) fn restore_interest(&mut self, before: Interest) {
        if let Subject::Foreign(watched) = &mut self.subject {
            watched.interest = before;
        }
    }

    /// Takes it out of the kernel's set, before it is closed: a duplicate of the descriptor would keep it
    /// there. Where there is none the close does that, and saves a system call.
    pub(super) fn close<S: Selector>(mut self, token: Token, set: &mut S) {
        if S::FORGETS_CLOSED && self.subject.socket().is_some_and(Socket::is_sole) {
            return;
        }
        self.leave(token, set);
    }

    /// Takes it out of the kernel's set.
    pub(super) fn leave<S: Selector>(&mut self, token: Token, set: &mut S) {
        if self.watched.take().is_some() {
            set.remove(self.subject.fd(), token);
        }
    }
}

impl Subject {
    /// What it is, for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Subject::Socket(_) => "a stream or listener",
            Subject::Datagrams(_) => "a socket for datagrams",
            Subject::Foreign(_) => "a foreign descriptor",
        }
    }

    /// The socket, if it is one.
    pub(super) fn socket(&self) -> Option<&Socket> {
        match self {
            Subject::Socket(endpoint) => Some(endpoint.socket()),
            Subject::Datagrams(endpoint) => Some(&endpoint.socket().socket),
            Subject::Foreign(_) => None,
        }
    }

    /// Turns reads on or off; of what is no socket, nothing.
    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        match self {
            Subject::Socket(endpoint) => endpoint.set_read(plan),
            Subject::Datagrams(endpoint) => endpoint.set_read(plan),
            Subject::Foreign(_) => {}
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Subject::Socket(endpoint) => endpoint.fd(),
            Subject::Datagrams(endpoint) => endpoint.fd(),
            Subject::Foreign(watched) => watched.source.as_fd(),
        }
    }

    fn wanted(&self) -> Option<Watch> {
        match self {
            Subject::Socket(endpoint) => endpoint.wanted(),
            Subject::Datagrams(endpoint) => endpoint.wanted(),
            Subject::Foreign(watched) => (!watched.broken).then_some(watched.interest.into()),
        }
    }

    fn may_be_watched_for_more(&self) -> bool {
        matches!(self, Subject::Socket(endpoint) if endpoint.is_edge_triggered())
    }

    #[inline]
    fn on_ready(&mut self, ready: Ready) -> bool {
        // Most are streams: they are told apart from the rest, and the rest only then from each other.
        if let Subject::Socket(endpoint) = self {
            return endpoint.on_ready(ready);
        }
        match self {
            Subject::Datagrams(endpoint) => return endpoint.on_ready(ready),
            Subject::Foreign(watched) => watched.ready |= ready,
            Subject::Socket(_) => {}
        }
        true
    }

    /// The kernel refuses to watch it: `Failed` is owed.
    pub(super) fn on_refused(&mut self, error: io::Error) {
        match self {
            Subject::Socket(endpoint) => endpoint.on_refused(error),
            Subject::Datagrams(endpoint) => endpoint.on_refused(error),
            Subject::Foreign(watched) => watched.break_with(error),
        }
    }

    /// True if it may have something more to say in this turn.
    #[inline]
    pub(super) fn is_in_turn(&self) -> bool {
        match self {
            Subject::Socket(endpoint) => endpoint.is_in_turn(),
            Subject::Datagrams(endpoint) => endpoint.is_in_turn(),
            Subject::Foreign(watched) => watched.has_work(),
        }
    }

    /// True if a turn would find something to do, by what is known now.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        match self {
            Subject::Socket(endpoint) => endpoint.has_work(),
            Subject::Datagrams(endpoint) => endpoint.has_work(),
            Subject::Foreign(watched) => watched.has_work(),
        }
    }

    /// Ends its turn; returns whether it is to have another one, in the next round.
    #[inline]
    pub(super) fn end_turn(&mut self) -> bool {
        match self {
            Subject::Socket(endpoint) => endpoint.end_turn(),
            Subject::Datagrams(endpoint) => endpoint.end_turn(),
            Subject::Foreign(watched) => watched.has_work(),
        }
    }

    /// Returns how many [steps](Self::next) one round may take.
    pub(super) fn max_steps(&self) -> u32 {
        match self {
            Subject::Socket(endpoint) => endpoint.max_steps(),
            Subject::Datagrams(endpoint) => endpoint.max_steps(),
            Subject::Foreign(_) => 1,
        }
    }

    /// Ends its round, whatever is left of it; returns the event that is owed then, if there is one.
    #[cold]
    pub(super) fn cut_round(&mut self, token: Token) -> Option<IoEvent> {
        match self {
            Subject::Socket(endpoint) => endpoint.cut_round(token),
            Subject::Datagrams(endpoint) => endpoint.cut_round(token),
            Subject::Foreign(watched) => {
                watched.ready = Ready::NONE;
                None
            }
        }
    }

    /// The next event of this round, if there is one; `taken` is what came of a read of it.
    pub(super) fn next(
        &mut self,
        token: Token,
        taken: Option<Taken>,
        rooms: Rooms<'_>,
    ) -> Option<IoEvent> {
        match self {
            Subject::Socket(endpoint) => endpoint.next(token, taken, rooms.block),
            Subject::Datagrams(endpoint) => endpoint.next(token, rooms.inbox),
            Subject::Foreign(watched) => watched.next(token),
        }
    }
}

/// A foreign descriptor.
pub(super) struct Watched {
    source: Descriptor,
    interest: Interest,
    ready: Ready,
    /// `Failed` is owed.
    failure: Option<io::Error>,
    /// It cannot be watched any longer.
    broken: bool,
}

impl Watched {
    pub(super) fn new(source: Descriptor, interest: Interest) -> io::Result<Self> {
        let interest = valid(interest)?;
        Ok(Self { source, interest, ready: Ready::NONE, failure: None, broken: false })
    }

    /// Changes the interest; returns the one before.
    pub(super) fn set_interest(&mut self, interest: Interest) -> io::Result<Interest> {
        Ok(std::mem::replace(&mut self.interest, valid(interest)?))
    }

    fn has_work(&self) -> bool {
        self.ready != Ready::NONE || self.failure.is_some()
    }

    /// Returns what is to be told of its readiness, if it has not failed. The interest may have changed since the
    /// kernel was asked.
    #[inline]
    pub(super) fn told(&mut self) -> Option<Readiness> {
        if self.ready.any(Ready::INVALID) || self.failure.is_some() {
            return None;
        }
        let told = std::mem::take(&mut self.ready).told(self.interest);
        (!told.is_empty()).then_some(told)
    }

    fn next(&mut self, token: Token) -> Option<IoEvent> {
        if let Some(told) = self.told() {
            return Some(IoEvent::Foreign(token, told));
        }
        if std::mem::take(&mut self.ready).any(Ready::INVALID) {
            self.break_with(rustix::io::Errno::BADF.into());
        }
        self.failure.take().map(|error| IoEvent::Failed(token, error))
    }

    fn break_with(&mut self, error: io::Error) {
        self.broken = true;
        self.failure = Some(error);
    }
}

fn valid(interest: Interest) -> io::Result<Interest> {
    if interest.is_empty() {
        let what =
            "the interest of a foreign registration is empty: it would never be told anything";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    Ok(interest)
}
