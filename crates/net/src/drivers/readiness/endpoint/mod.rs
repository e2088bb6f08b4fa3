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
//!
//! What the kernel has said is kept in `ready` until a system call shows that it is over: a short read or
//! EAGAIN takes back that there is something to read, a write without room that there is some. Where the kernel
//! says it for as long as it lasts, `ready` is dropped at the end of each turn instead.

mod reading;
mod writing;

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use socket2::SockRef;
use waterwheel_channel::Token;
use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Role};

use self::reading::Round;
pub(super) use self::reading::Taken;
use super::read_block::ReadBlock;
use super::read_plan::{PackedReadPlan, READ_WILL_TELL, max_steps};
use crate::drivers::selector::{Ready, Watch};
use crate::sockets::socket::Socket;

/// Readiness that a turn looks at before it ends: an error, a hang-up, the peer's end while nobody reads.
const TO_SETTLE: Ready = Ready::ERROR.or(Ready::INVALID).or(Ready::HANG_UP).or(Ready::READ_END);

pub(super) struct Endpoint {
    socket: Socket,
    phase: Phase,
    /// The kernel says once what is ready.
    edge: bool,
    /// Reads are on, and the end was not told.
    plan: Option<PackedReadPlan>,
    round: Round,
    /// A read has found the end. Reads may have gone off before that could be told.
    end_found: bool,
    /// `Eof` was given out.
    ended: bool,
    /// `PeerFinished` was given out, or need not be. It is not asked for again then: it lasts, and would be
    /// reported for ever.
    finish_told: bool,
    /// `Wrote` or `Failed` is owed.
    write_pending: bool,
    /// A hang-up was reported. It is for ever, and cannot be asked not to be told: a socket that
    /// wants nothing else leaves the set.
    hung_up: bool,
    /// What the kernel has said, as far as nothing has shown that it is over. `WRITE` only if somebody waits for
    /// it: whoever does not finds out by writing.
    ready: Ready,
    /// `Failed`, or `AcceptFailed` of a listener, is owed, after everything else of this round.
    failure: Option<io::Error>,
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

impl Endpoint {
    /// Takes a socket in. One that is to be connected is connecting, or already connected, then. With `edges` it
    /// is edge-triggered, if a short read shows that there is nothing left to read.
    pub(super) fn new(socket: Socket, role: Role, edges: bool) -> io::Result<Self> {
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
            edge: edges && socket.is_tcp(),
            socket,
            phase,
            plan: None,
            round: Round::Waiting,
            end_found: false,
            ended: false,
            finish_told: false,
            write_pending: false,
            hung_up: false,
            ready,
            failure: None,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// True if the kernel says once what is ready.
    pub(super) fn is_edge_triggered(&self) -> bool {
        self.edge
    }

    /// What it is to be watched for; `None`: it is not to be in the set.
    pub(super) fn wanted(&self) -> Option<Watch> {
        // An edge says besides whether there is urgent data, behind which a read goes on.
        let readable = match self.edge {
            true => Interest::READABLE | Interest::PRIORITY,
            false => Interest::READABLE,
        };
        let mut wanted = Interest::NONE;
        match self.phase {
            Phase::Broken => return None,
            // What comes after the connect is asked for now: then the kernel need not be told again.
            Phase::Connecting if self.edge => wanted = readable | Interest::WRITABLE,
            Phase::Connecting => return Some(Interest::WRITABLE.into()),
            Phase::Listening | Phase::Connected | Phase::Passing => {
                if self.plan.is_some() {
                    wanted = wanted | readable;
                }
                if self.write_pending {
                    wanted = wanted | Interest::WRITABLE;
                }
            }
        }
        let read_end = self.tells_finish() && !self.hung_up;
        let watch = Watch { interest: wanted, read_end, edge: self.edge };
        (!wanted.is_empty() || !self.hung_up).then_some(watch)
    }

    /// True while nobody reads, and that the peer has finished would be told.
    fn tells_finish(&self) -> bool {
        let is_silent = self.plan.is_none() && self.phase >= Phase::Connected;
        is_silent && !self.ended && !self.finish_told
    }

    /// Notes what the kernel says; returns whether the endpoint is to have a turn.
    #[inline]
    pub(super) fn on_ready(&mut self, ready: Ready) -> bool {
        self.ready |= ready;
        self.plan.is_some() && self.ready == Ready::READ || self.on_other_ready()
    }

    #[inline(never)]
    fn on_other_ready(&mut self) -> bool {
        if !self.write_pending && self.phase != Phase::Connecting {
            self.ready.take(Ready::WRITE);
        }
        !self.edge || self.has_work()
    }

    /// True if a turn would find something to do, by what is known now.
    pub(super) fn has_work(&self) -> bool {
        let ready = self.ready;
        let is_awaited = match self.phase {
            Phase::Broken => false,
            Phase::Connecting => ready.any(Ready::WRITE | Ready::ERROR | Ready::HANG_UP),
            Phase::Listening | Phase::Connected | Phase::Passing => {
                ready.any(Ready::ERROR | Ready::INVALID)
                    || self.plan.is_some() && ready.any(READ_WILL_TELL)
                    || self.write_pending && ready.any(Ready::WRITE | Ready::HANG_UP)
                    || self.tells_finish() && ready.any(Ready::READ_END)
            }
        };
        is_awaited || self.failure.is_some()
    }

    /// It cannot be watched any more.
    pub(super) fn on_refused(&mut self, error: io::Error) {
        self.break_with(error);
    }

    /// True while its turn is not over: there may be something to say.
    #[inline]
    pub(super) fn is_in_turn(&self) -> bool {
        match self.round {
            Round::Waiting => self.ready != Ready::NONE || self.failure.is_some(),
            Round::Settled => false,
            _ => true,
        }
    }

    /// Ends its turn; returns whether it is to have another one, in the next round.
    pub(super) fn end_turn(&mut self) -> bool {
        self.round = Round::Waiting;
        if !self.edge {
            self.ready = Ready::NONE;
        }
        self.has_work()
    }

    /// Returns how many steps a round may take.
    pub(super) fn max_steps(&self) -> u32 {
        max_steps(self.plan)
    }

    /// Ends the round, whatever is left of it.
    pub(super) fn cut_round(&mut self, token: Token) -> Option<IoEvent> {
        let is_open = matches!(self.round, Round::Reading { .. });
        self.round = Round::Settled;
        is_open.then_some(IoEvent::ReadComplete(token))
    }

    /// What its reads look for may be another thing now.
    pub(super) fn on_option_set(&mut self) {
        if self.phase >= Phase::Connected {
            self.phase = Phase::connected(&self.socket);
        }
    }

    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        self.plan = plan.filter(|_| !self.ended).map(PackedReadPlan::of);
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

    pub(super) fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        // A shutdown would turn a connecting socket or a listener into one that was never connected.
        if matches!(self.phase, Phase::Connecting | Phase::Listening) {
            return Err(self.not_connected("shut down"));
        }
        SockRef::from(&self.socket).shutdown(how)?;
        // The kernel says the same of an input that was shut down here.
        self.finish_told |= how != Shutdown::Write;
        Ok(())
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
                let event = self.finish_write(token).or_else(|| self.read(token, block));
                event.or_else(|| self.tell_finish(token))
            }
        }
    }

    /// Tells that the peer has finished, if nobody reads. With an error it is `Failed` that tells the end; a
    /// hang-up alone says nothing of a peer: a socket that was never connected has it too.
    fn tell_finish(&mut self, token: Token) -> Option<IoEvent> {
        let finished = self.ready.any(Ready::READ_END) && !self.ready.any(Ready::ERROR);
        if !finished || !self.tells_finish() {
            return None;
        }
        self.finish_told = true;
        Some(IoEvent::PeerFinished(token))
    }

    fn finish_connect(&mut self, token: Token) -> Option<IoEvent> {
        let (writable, hung_up) = (self.ready.any(Ready::WRITE), self.ready.any(Ready::HANG_UP));
        if !self.ready.take(Ready::WRITE | Ready::ERROR | Ready::HANG_UP) {
            return None;
        }
        match self.socket.take_error() {
            // A hang-up without an error: somebody else has ended the attempt.
            Ok(None) if hung_up && !self.socket.has_peer() => {
                self.break_with(ErrorKind::NotConnected.into());
                None
            }
            // Notes in the error queue, and the attempt goes on.
            Ok(None) if !writable && !self.socket.has_peer() => {
                self.socket.drain_error_queue();
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

    /// Ends the round: looks at what no step has dealt with.
    fn settle(&mut self) {
        let ready = self.ready;
        self.ready.take(Ready::ERROR | Ready::INVALID);
        self.round = Round::Settled;
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
