//! One socket: what is watched for it, and which events its readiness turns into.
//!
//! The order of events in one round is the order of the steps in [`Endpoint::next`]; each does at
//! most one system call and gives out at most one event, so that the loop's reaction to an event
//! (reads off, detached) is seen before the next call is made.
//!
//! ```text
//!   Connecting ──► Connected ◄──► Passing ──► Broken          Listening
//!         └─────────────┴─────────────────────▲
//! ```

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;
use rustix::io::Errno;
use socket2::SockRef;
use waterwheel_channel::driver::{Interest, IoEvent, OutQueue, ReadPlan, Role, Submit};
use waterwheel_channel::{FileRegion, Parcel, Token};

use super::read_block::ReadBlock;
use crate::parcels;
use crate::selector::Ready;
use crate::socket::Socket;

/// What a read finds something out by: data, the end, or an error.
const READ_WILL_TELL: Ready = Ready::READ.or(Ready::READ_END).or(Ready::HANG_UP).or(Ready::ERROR);

/// Behind what there is to read there is something else: a short read is not the last one.
const MORE_THAN_DATA: Ready = Ready::READ_END.or(Ready::HANG_UP).or(Ready::ERROR);

pub(super) struct Endpoint {
    socket: Socket,
    phase: Phase,
    /// Reads are on.
    plan: Option<Plan>,
    round: Round,
    /// A read has found the end. Reads may have gone off before that could be told.
    end_found: bool,
    /// `Eof` was given out.
    ended: bool,
    /// `Wrote` or `Failed` is owed.
    write_pending: bool,
    /// A hang-up was reported. It is for ever, and cannot be asked not to be told: a socket that
    /// wants nothing else leaves the set.
    hung_up: bool,
    /// What the kernel has said in this round and is not dealt with.
    ready: Ready,
    /// `Failed`, or `AcceptFailed` of a listener, is owed, after everything else of this round.
    failure: Option<io::Error>,
}

/// A [`ReadPlan`] in one word: at least one read in a round, of at least one byte.
#[derive(Clone, Copy)]
struct Plan {
    max_reads: u32,
    size: NonZeroU32,
}

impl Plan {
    fn of(plan: ReadPlan) -> Self {
        // A read of nothing would look like the end.
        let size = u32::try_from(plan.size.min(ReadPlan::MAX_SIZE)).ok().and_then(NonZeroU32::new);
        Self { max_reads: plan.max_reads.max(1), size: size.unwrap_or(NonZeroU32::MIN) }
    }

    fn size(self) -> usize {
        self.size.get() as usize
    }
}

/// In this order: from `Connected` on it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    /// Nothing is to be had from it any more.
    Broken,
    Listening,
    Connecting,
    Connected,
    /// It is connected, and its reads may be parcels: they take another call, so that others pay nothing.
    Passing,
}

impl Phase {
    /// That of a socket with a peer.
    fn connected(socket: &Socket) -> Self {
        if socket.takes_parcels() { Phase::Passing } else { Phase::Connected }
    }
}

/// How far the reads, or accepts, of this round are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Not begun.
    Waiting,
    /// So many may follow.
    Reading {
        left: u32,
    },
    /// `ReadComplete` was given out, `Eof` is owed.
    AtEnd,
    Over,
}

/// What one read or accept came to.
pub(super) enum Taken {
    /// Something, and there may be more.
    Event(IoEvent),
    /// Nothing yet.
    Again,
    Nothing,
    End,
    Error(io::Error),
}

impl Taken {
    #[cold]
    fn of_errno(error: Errno) -> Self {
        match error {
            Errno::AGAIN => Taken::Nothing,
            Errno::INTR => Taken::Again,
            _ => Taken::Error(error.into()),
        }
    }
}

impl Endpoint {
    /// Takes a socket in. One that is to be connected is connecting, or already connected, then.
    pub(super) fn new(socket: Socket, role: Role) -> io::Result<Self> {
        let mut ready = Ready::NONE;
        let phase = match role {
            Role::Listener => Phase::Listening,
            Role::Stream => Phase::connected(&socket),
            Role::Connecting(address) => {
                if socket.connect(&address)? {
                    ready = Ready::WRITE;
                }
                Phase::Connecting
            }
            other => {
                let what = format!("sockets with the role {other:?} are not known here");
                return Err(io::Error::new(ErrorKind::Unsupported, what));
            }
        };
        Ok(Self {
            socket,
            phase,
            plan: None,
            round: Round::Waiting,
            end_found: false,
            ended: false,
            write_pending: false,
            hung_up: false,
            ready,
            failure: None,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What it is to be watched for; `None`: it is not to be in the set.
    pub(super) fn wanted(&self) -> Option<Interest> {
        let mut wanted = Interest::NONE;
        match self.phase {
            Phase::Broken => return None,
            Phase::Connecting => return Some(Interest::WRITABLE),
            Phase::Listening | Phase::Connected | Phase::Passing => {
                if self.plan.is_some() && !self.ended {
                    wanted = wanted | Interest::READABLE;
                }
                if self.write_pending {
                    wanted = wanted | Interest::WRITABLE;
                }
            }
        }
        (!wanted.is_empty() || !self.hung_up).then_some(wanted)
    }

    /// The kernel says so.
    pub(super) fn on_ready(&mut self, ready: Ready) {
        self.ready |= ready;
    }

    /// It cannot be watched any more.
    pub(super) fn on_refused(&mut self, error: io::Error) {
        self.break_with(error);
    }

    /// Whether its round is not over: there may be something to say.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.ready != Ready::NONE || self.round != Round::Waiting || self.failure.is_some()
    }

    /// What its reads look for may be another thing now.
    pub(super) fn on_option_set(&mut self) {
        if self.phase >= Phase::Connected {
            self.phase = Phase::connected(&self.socket);
        }
    }

    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        self.plan = plan.map(Plan::of);
    }

    #[inline]
    pub(super) fn write(&mut self, queue: &OutQueue) -> io::Result<Submit> {
        if self.write_pending || self.phase < Phase::Connected {
            return Err(self.not_to_be_written());
        }
        match self.socket.send(queue) {
            Ok(n) => Ok(Submit::Done(n)),
            Err(Errno::AGAIN) => {
                self.write_pending = true;
                Ok(Submit::Full)
            }
            Err(error) => {
                self.phase = Phase::Broken;
                Err(error.into())
            }
        }
    }

    pub(super) fn send_file(&mut self, file: &FileRegion) -> io::Result<Submit> {
        self.may_be_written()?;
        let sent = self.socket.send_file(file);
        self.submitted(sent)
    }

    pub(super) fn send_parcel(&mut self, parcel: &Parcel) -> io::Result<Submit> {
        self.may_be_written()?;
        match parcels::send(&self.socket, parcel, None) {
            // It was looked at, and not sent.
            Err(error) if parcels::is_refused(&error) => Err(error),
            sent => self.submitted(sent),
        }
    }

    fn may_be_written(&self) -> io::Result<()> {
        match self.write_pending || self.phase < Phase::Connected {
            true => Err(self.not_to_be_written()),
            false => Ok(()),
        }
    }

    fn submitted(&mut self, sent: io::Result<usize>) -> io::Result<Submit> {
        match sent {
            Ok(n) => Ok(Submit::Done(n)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.write_pending = true;
                Ok(Submit::Full)
            }
            Err(error) => {
                self.phase = Phase::Broken;
                Err(error)
            }
        }
    }

    #[cold]
    fn not_to_be_written(&self) -> io::Error {
        if self.write_pending {
            let what = "a write is pending: no other may be begun before its Wrote or Failed";
            return io::Error::new(ErrorKind::InvalidInput, what);
        }
        self.not_connected("written to")
    }

    /// Lets the socket go, without closing it. Refused while it connects: the kernel is at it.
    pub(super) fn may_be_released(&self) -> io::Result<()> {
        match self.phase {
            Phase::Connecting => Err(self.not_connected("given back")),
            _ => Ok(()),
        }
    }

    pub(super) fn into_socket(self) -> Socket {
        self.socket
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        // A shutdown would turn a connecting socket or a listener into one that was never connected.
        if matches!(self.phase, Phase::Connecting | Phase::Listening) {
            return Err(self.not_connected("shut down"));
        }
        SockRef::from(&self.socket).shutdown(how)
    }

    /// Reads, if there is something to read and nothing else: so it is nearly always. Whether it is the
    /// last of its round: that is over then, but for its `ReadComplete`. Anything but bytes is for
    /// [`next`](Self::next) to say.
    #[inline(always)]
    pub(super) fn read_plainly(
        &mut self,
        block: &mut ReadBlock,
    ) -> Result<(Bytes, bool), Option<Taken>> {
        let Some(plan) = self.plan else { return Err(None) };
        let left = match self.round {
            Round::Waiting if !self.ended => plan.max_reads,
            Round::Reading { left } => left,
            _ => 0,
        };
        if self.phase != Phase::Connected || self.ready != Ready::READ || left == 0 {
            return Err(None);
        }
        let bytes = match block.recv(self.socket.as_fd(), plan.size()) {
            Ok(bytes) if bytes.is_empty() => return Err(Some(Taken::End)),
            Ok(bytes) => bytes,
            Err(error) => {
                self.round = Round::Reading { left: left - 1 };
                return Err(Some(Taken::of_errno(error)));
            }
        };
        let last = bytes.len() < plan.size() || left == 1;
        if last {
            (self.ready, self.round) = (Ready::NONE, Round::Waiting);
        } else {
            self.round = Round::Reading { left: left - 1 };
        }
        Ok((bytes, last))
    }

    /// The next event of this round, if there is one; `taken` is what came of a read of it.
    #[inline(never)]
    pub(super) fn next(
        &mut self,
        token: Token,
        taken: Option<Taken>,
        block: &mut ReadBlock,
    ) -> Option<IoEvent> {
        let event = taken.and_then(|taken| self.told_by(taken, token));
        let event = event.or_else(|| self.next_step(token, block));
        if event.is_some() {
            return event;
        }
        self.settle();
        let failure = self.failure.take();
        failure.map(|error| match self.phase {
            Phase::Listening => IoEvent::AcceptFailed(token, error),
            _ => IoEvent::Failed(token, error),
        })
    }

    fn next_step(&mut self, token: Token, block: &mut ReadBlock) -> Option<IoEvent> {
        match self.phase {
            Phase::Broken => None,
            Phase::Connecting => self.finish_connect(token),
            Phase::Listening | Phase::Connected | Phase::Passing => {
                self.finish_write(token).or_else(|| self.read(token, block))
            }
        }
    }

    fn finish_connect(&mut self, token: Token) -> Option<IoEvent> {
        let hung_up = self.ready.any(Ready::HANG_UP);
        if !self.ready.take(Ready::WRITE | Ready::ERROR | Ready::HANG_UP) {
            return None;
        }
        match self.socket.take_error() {
            // A hang-up without an error: somebody else has ended the attempt.
            Ok(None) if hung_up && !self.socket.has_peer() => {
                self.break_with(ErrorKind::NotConnected.into());
                None
            }
            Ok(None) => {
                self.phase = Phase::connected(&self.socket);
                Some(IoEvent::Connected(token))
            }
            Ok(Some(error)) | Err(error) => {
                self.break_with(error);
                None
            }
        }
    }

    fn finish_write(&mut self, token: Token) -> Option<IoEvent> {
        // With an error `Failed` answers the write. After a hang-up the write itself will tell; local
        // sockets report no room then, and would report the hang-up for ever.
        let answer = self.ready.any(Ready::WRITE | Ready::HANG_UP) && !self.ready.any(Ready::ERROR);
        self.ready.take(Ready::WRITE);
        (answer && std::mem::take(&mut self.write_pending)).then_some(IoEvent::Wrote(token, 0))
    }

    fn read(&mut self, token: Token, block: &mut ReadBlock) -> Option<IoEvent> {
        if self.round == Round::Waiting {
            let plan = self.plan.filter(|_| !self.ended && self.ready.any(READ_WILL_TELL))?;
            self.round = Round::Reading { left: plan.max_reads };
        }
        while let Round::Reading { left } = self.round {
            let Some(plan) = self.plan else { return self.complete(token, Round::Over) };
            let Some(left) = left.checked_sub(1) else {
                // There may be more to read: an error behind it has time until the next round.
                self.ready.take(Ready::ERROR);
                return self.complete(token, Round::Over);
            };
            self.round = Round::Reading { left };
            let taken = match self.phase {
                Phase::Listening => self.accept(token),
                Phase::Passing => self.recv_parcel(token, plan.size(), block),
                _ => match self.recv(plan.size(), block) {
                    Ok(bytes) => Taken::Event(IoEvent::Read(token, bytes)),
                    Err(taken) => taken,
                },
            };
            if let Some(event) = self.told_by(taken, token) {
                return Some(event);
            }
        }
        // Reads may have gone off since the end was seen: it will be there when they are on again.
        let at_end = std::mem::replace(&mut self.round, Round::Over) == Round::AtEnd;
        self.ended = at_end && self.plan.is_some() || self.ended;
        (at_end && self.ended).then_some(IoEvent::Eof(token))
    }

    /// What is to be said of one read or accept; nothing: it is to be made again.
    fn told_by(&mut self, taken: Taken, token: Token) -> Option<IoEvent> {
        match taken {
            Taken::Event(event) => Some(event),
            Taken::Again => None,
            Taken::Nothing => self.complete(token, Round::Over),
            // Found again: it is told before reads can go off once more, or whoever turns them off after
            // each round would never learn of it.
            Taken::End if self.end_found => {
                (self.round, self.ended) = (Round::Over, true);
                Some(IoEvent::Eof(token))
            }
            Taken::End => {
                self.end_found = true;
                self.complete(token, Round::AtEnd)
            }
            Taken::Error(error) => {
                self.on_read_error(error);
                self.complete(token, Round::Over)
            }
        }
    }

    fn complete(&mut self, token: Token, next: Round) -> Option<IoEvent> {
        self.round = next;
        if next == Round::Over && self.ready == Ready::READ {
            // There is nothing left to settle: it need not be asked again.
            self.ready = Ready::NONE;
            self.round = Round::Waiting;
        }
        Some(IoEvent::ReadComplete(token))
    }

    /// Reads once. A short read is the last of its round, unless something else is behind the data.
    #[inline(always)]
    fn recv(&mut self, size: usize, block: &mut ReadBlock) -> Result<Bytes, Taken> {
        let bytes = block.recv(self.socket.as_fd(), size).map_err(Taken::of_errno)?;
        if bytes.is_empty() {
            return Err(Taken::End);
        }
        if bytes.len() < size && !self.ready.any(MORE_THAN_DATA) {
            self.round = Round::Reading { left: 0 };
        }
        Ok(bytes)
    }

    /// Reads once, and takes what came along.
    fn recv_parcel(&mut self, token: Token, size: usize, block: &mut ReadBlock) -> Taken {
        let (bytes, received) = match block.recv_parcel(&self.socket, size) {
            Ok(received) => received,
            Err(error) => {
                let errno = Errno::from_io_error(&error);
                return errno.map_or_else(|| Taken::Error(error), Taken::of_errno);
            }
        };
        if bytes.is_empty() {
            return Taken::End;
        }
        // With something passed a read ends where that does, however much there is behind it.
        let short = bytes.len() < size && received.parcel.passed.is_empty();
        if short && !self.ready.any(MORE_THAN_DATA) {
            self.round = Round::Reading { left: 0 };
        }
        Taken::Event(match received.is_plain {
            true => IoEvent::Read(token, bytes),
            false => IoEvent::Parcel(token, Box::new(Parcel { bytes, ..received.parcel })),
        })
    }

    fn accept(&self, token: Token) -> Taken {
        match self.socket.accept() {
            Ok((socket, peer)) => Taken::Event(IoEvent::Accepted(token, socket.into(), peer)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Taken::Nothing,
            Err(error) if is_of_the_peer(&error) => Taken::Again,
            Err(error) => Taken::Error(error),
        }
    }

    fn on_read_error(&mut self, error: io::Error) {
        match self.phase {
            // One connection was not had; but a listener that was shut down will never have another.
            Phase::Listening if !self.ready.any(Ready::HANG_UP) => self.failure = Some(error),
            _ => self.break_with(error),
        }
    }

    /// Ends the round: looks at what no step has dealt with.
    fn settle(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        self.round = Round::Waiting;
        if self.phase == Phase::Broken {
            return;
        }
        self.hung_up |= ready.any(Ready::HANG_UP);
        if ready.any(Ready::INVALID) {
            self.break_with(Errno::BADF.into());
        }
        if ready.any(Ready::ERROR) {
            match self.socket.take_error() {
                Ok(Some(error)) | Err(error) if self.phase == Phase::Listening => {
                    self.failure = Some(error);
                }
                Ok(Some(error)) | Err(error) => self.break_with(error),
                Ok(None) => self.socket.drain_error_queue(),
            }
        }
    }

    fn break_with(&mut self, error: io::Error) {
        self.phase = Phase::Broken;
        self.failure = Some(error);
    }

    fn not_connected(&self, done: &str) -> io::Error {
        let is = match self.phase {
            Phase::Listening => "a listener",
            Phase::Connecting => "still connecting",
            Phase::Connected | Phase::Passing => "connected",
            Phase::Broken => "broken",
        };
        let what = format!("a socket that is {is} cannot be {done}");
        io::Error::new(ErrorKind::NotConnected, what)
    }
}

/// Whether an accept failed because of the one connection that was to be accepted: it has gone away
/// again, or something on its way has failed. The next may be there.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::INTR
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
        )
    )
}
