//! What the driver knows of one token.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use waterwheel_channel::Token;
use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan};

use super::datagrams::{DatagramEndpoint, Inbox};
use super::endpoint::{Endpoint, Taken};
use super::read_block::ReadBlock;
use crate::foreign::Descriptor;
use crate::selector::{Ready, Selector, Watch};
use crate::socket::Socket;

/// A socket or a foreign descriptor, and its place in the kernel's set and in the driver's lists.
pub(super) struct Registration {
    pub(super) subject: Subject,
    /// What it is watched for; `None`: it is not in the kernel's set.
    watched: Option<Watch>,
    /// It is in the list of those whose watching may have to change.
    pub(super) changing: bool,
    /// It is in the list of those that have something to say.
    pub(super) queued: bool,
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
        Self { subject, watched: None, changing: false, queued: false }
    }

    /// Whether the kernel's set is not as it should be.
    pub(super) fn is_changed(&self) -> bool {
        self.watched != self.subject.wanted()
    }

    /// Makes the kernel's set as it should be.
    pub(super) fn apply<S: Selector>(&mut self, token: Token, set: &mut S) -> io::Result<()> {
        let (fd, wanted) = (self.subject.fd(), self.subject.wanted());
        match (self.watched, wanted) {
            (None, Some(new)) => set.add(fd, token, new)?,
            (Some(old), Some(new)) if old != new => set.modify(fd, token, new)?,
            (Some(_), None) => set.remove(fd, token),
            (Some(_), Some(_)) | (None, None) => {}
        }
        self.watched = wanted;
        Ok(())
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
            Subject::Datagrams(endpoint) => endpoint.wanted().map(Watch::from),
            Subject::Foreign(watched) => (!watched.broken).then_some(watched.interest.into()),
        }
    }

    /// The kernel says so.
    pub(super) fn on_ready(&mut self, ready: Ready) {
        match self {
            Subject::Socket(endpoint) => endpoint.on_ready(ready),
            Subject::Datagrams(endpoint) => endpoint.on_ready(ready),
            Subject::Foreign(watched) => watched.ready |= ready,
        }
    }

    /// The kernel refuses to watch it: `Failed` is owed.
    pub(super) fn on_refused(&mut self, error: io::Error) {
        match self {
            Subject::Socket(endpoint) => endpoint.on_refused(error),
            Subject::Datagrams(endpoint) => endpoint.on_refused(error),
            Subject::Foreign(watched) => watched.break_with(error),
        }
    }

    /// True if it may have something more to say in this round.
    #[inline]
    pub(super) fn is_in_round(&self) -> bool {
        match self {
            Subject::Socket(endpoint) => endpoint.is_in_round(),
            Subject::Datagrams(endpoint) => endpoint.is_in_round(),
            Subject::Foreign(watched) => watched.is_in_round(),
        }
    }

    /// True if it may have something to say, in this round or in the next.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        match self {
            Subject::Datagrams(endpoint) => endpoint.is_ready(),
            other => other.is_in_round(),
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

    fn is_in_round(&self) -> bool {
        self.ready != Ready::NONE || self.failure.is_some()
    }

    pub(super) fn next(&mut self, token: Token) -> Option<IoEvent> {
        let ready = std::mem::take(&mut self.ready);
        if ready.any(Ready::INVALID) {
            self.break_with(rustix::io::Errno::BADF.into());
        }
        if let Some(error) = self.failure.take() {
            return Some(IoEvent::Failed(token, error));
        }
        // The interest may have changed since the kernel was asked.
        let told = ready.told(self.interest);
        (!told.is_empty()).then_some(IoEvent::Foreign(token, told))
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
