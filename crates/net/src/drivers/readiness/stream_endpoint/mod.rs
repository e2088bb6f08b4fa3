//! One socket: what is watched for it, and which events its readiness turns into.
//!
//! The order of events in one round is the order of the steps in [`StreamEndpoint::next`]; each does at
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

pub(super) use self::reading::ReadOutcome;
use self::reading::ReadRound;
use super::read_block::ReadBlock;
use super::read_plan::{PackedReadPlan, READ_EVENTS, max_steps};
use crate::drivers::selector::{ReadyFlags, WatchedEvents};
use crate::sockets::socket::Socket;

/// Readiness that a turn looks at before it ends: an error, a hang-up, the peer's end while nobody reads.
const CHECKED_AT_ROUND_END: ReadyFlags =
    ReadyFlags::ERROR.or(ReadyFlags::INVALID).or(ReadyFlags::HANG_UP).or(ReadyFlags::READ_END);

pub(super) struct StreamEndpoint {
    socket: Socket,
    phase: SocketPhase,
    /// The kernel says once what is ready.
    is_edge: bool,
    /// Reads are on, and the end was not told.
    plan: Option<PackedReadPlan>,
    round: ReadRound,
    /// A read has found the end. Reads may have gone off before that could be told.
    is_eof_found: bool,
    /// `Eof` was given out.
    is_eof_reported: bool,
    /// `PeerFinished` was given out, or need not be. It is not asked for again then: it lasts, and would be
    /// reported for ever.
    is_finish_reported: bool,
    /// `Wrote` or `Failed` is owed.
    write_pending: bool,
    /// A hang-up was reported. It is for ever, and cannot be asked not to be told: a socket that
    /// wants nothing else leaves the set.
    is_hung_up: bool,
    /// What the kernel has said, as far as nothing has shown that it is over. `WRITE` only if somebody waits for
    /// it: whoever does not finds out by writing.
    ready: ReadyFlags,
    /// `Failed`, or `AcceptFailed` of a listener, is owed, after everything else of this round.
    failure: Option<io::Error>,
}

/// In this order: from `Connected` on it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum SocketPhase {
    /// Nothing is to be had from it any more.
    Broken,
    Listening,
    Connecting,
    Connected,
    /// It is connected, and its reads may be ancillary messages: they take another call, so that others pay nothing.
    ConnectedAncillary,
}

impl SocketPhase {
    /// That of a socket with a peer.
    fn connected(socket: &Socket) -> Self {
        if socket.receives_ancillary() {
            SocketPhase::ConnectedAncillary
        } else {
            SocketPhase::Connected
        }
    }
}

impl StreamEndpoint {
    /// Takes a socket in. One that is to be connected is connecting, or already connected, then. With `edges` it
    /// is edge-triggered, if a short read shows that there is nothing left to read.
    pub(super) fn new(socket: Socket, role: Role, edges: bool) -> io::Result<Self> {
        let mut ready = ReadyFlags::NONE;
        let phase = match role {
            Role::Listener => SocketPhase::Listening,
            Role::Stream => SocketPhase::connected(&socket),
            Role::Connecting(address) => {
                if socket.connect(&address)? {
                    ready = ReadyFlags::WRITE;
                }
                SocketPhase::Connecting
            }
            other => {
                let what = format!("sockets with the role {other:?} are not known here");
                return Err(io::Error::new(ErrorKind::Unsupported, what));
            }
        };
        Ok(Self {
            is_edge: edges && socket.is_tcp(),
            socket,
            phase,
            plan: None,
            round: ReadRound::NotStarted,
            is_eof_found: false,
            is_eof_reported: false,
            is_finish_reported: false,
            write_pending: false,
            is_hung_up: false,
            ready,
            failure: None,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// True if the kernel says once what is ready.
    pub(super) fn is_edge_triggered(&self) -> bool {
        self.is_edge
    }

    /// What it is to be watched for; `None`: it is not to be in the set.
    pub(super) fn wanted_events(&self) -> Option<WatchedEvents> {
        // An edge says others whether there is urgent data, behind which a read goes on.
        let readable = match self.is_edge {
            true => Interest::READABLE | Interest::PRIORITY,
            false => Interest::READABLE,
        };
        let mut wanted = Interest::NONE;
        match self.phase {
            SocketPhase::Broken => return None,
            // What comes after the connect is asked for now: then the kernel need not be told again.
            SocketPhase::Connecting if self.is_edge => wanted = readable | Interest::WRITABLE,
            SocketPhase::Connecting => return Some(Interest::WRITABLE.into()),
            SocketPhase::Listening | SocketPhase::Connected | SocketPhase::ConnectedAncillary => {
                if self.plan.is_some() {
                    wanted = wanted | readable;
                }
                if self.write_pending {
                    wanted = wanted | Interest::WRITABLE;
                }
            }
        }
        let read_end = self.reports_peer_finish() && !self.is_hung_up;
        let watch = WatchedEvents { interest: wanted, read_end, edge: self.is_edge };
        (!wanted.is_empty() || !self.is_hung_up).then_some(watch)
    }

    /// True while nobody reads, and that the peer has finished would be told.
    fn reports_peer_finish(&self) -> bool {
        let is_silent = self.plan.is_none() && self.phase >= SocketPhase::Connected;
        is_silent && !self.is_eof_reported && !self.is_finish_reported
    }

    /// Notes what the kernel says; returns whether the endpoint is to have a turn.
    #[inline]
    pub(super) fn on_ready(&mut self, ready: ReadyFlags) -> bool {
        self.ready |= ready;
        self.plan.is_some() && self.ready == ReadyFlags::READ || self.on_other_ready()
    }

    #[inline(never)]
    fn on_other_ready(&mut self) -> bool {
        if !self.write_pending && self.phase != SocketPhase::Connecting {
            self.ready.take(ReadyFlags::WRITE);
        }
        !self.is_edge || self.has_work()
    }

    /// True if a turn would find something to do, by what is known now.
    pub(super) fn has_work(&self) -> bool {
        let ready = self.ready;
        let is_awaited = match self.phase {
            SocketPhase::Broken => false,
            SocketPhase::Connecting => {
                ready.contains_any(ReadyFlags::WRITE | ReadyFlags::ERROR | ReadyFlags::HANG_UP)
            }
            SocketPhase::Listening | SocketPhase::Connected | SocketPhase::ConnectedAncillary => {
                ready.contains_any(ReadyFlags::ERROR | ReadyFlags::INVALID)
                    || self.plan.is_some() && ready.contains_any(READ_EVENTS)
                    || self.write_pending
                        && ready.contains_any(ReadyFlags::WRITE | ReadyFlags::HANG_UP)
                    || self.reports_peer_finish() && ready.contains_any(ReadyFlags::READ_END)
            }
        };
        is_awaited || self.failure.is_some()
    }

    /// True while its turn is not over: there may be something to say.
    #[inline]
    pub(super) fn is_visit_open(&self) -> bool {
        match self.round {
            ReadRound::NotStarted => self.ready != ReadyFlags::NONE || self.failure.is_some(),
            ReadRound::Finished => false,
            _ => true,
        }
    }

    /// Ends its turn; returns whether it is to have another one, in the next round.
    pub(super) fn end_visit(&mut self) -> bool {
        self.round = ReadRound::NotStarted;
        if !self.is_edge {
            self.ready = ReadyFlags::NONE;
        }
        self.has_work()
    }

    /// Returns how many steps a round may take.
    pub(super) fn max_steps(&self) -> u32 {
        max_steps(self.plan)
    }

    /// Ends the round, whatever is left of it.
    pub(super) fn cut_round(&mut self, token: Token) -> Option<IoEvent> {
        let is_open = matches!(self.round, ReadRound::Reading { .. });
        self.round = ReadRound::Finished;
        is_open.then_some(IoEvent::ReadComplete(token))
    }

    /// What its reads look for may be another thing now.
    pub(super) fn on_option_set(&mut self) {
        if self.phase >= SocketPhase::Connected {
            self.phase = SocketPhase::connected(&self.socket);
        }
    }

    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        self.plan = plan.filter(|_| !self.is_eof_reported).map(PackedReadPlan::of);
    }

    /// Lets the socket go, without closing it. Refused while it connects: the kernel is at it.
    pub(super) fn check_releasable(&self) -> io::Result<()> {
        match self.phase {
            SocketPhase::Connecting => Err(self.not_connected("given back")),
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
        if matches!(self.phase, SocketPhase::Connecting | SocketPhase::Listening) {
            return Err(self.not_connected("shut down"));
        }
        SockRef::from(&self.socket).shutdown(how)?;
        // The kernel says the same of an input that was shut down here.
        self.is_finish_reported |= how != Shutdown::Write;
        Ok(())
    }

    /// The next event of this round, if there is one; `outcome` is what came of a read of it.
    #[inline(never)]
    pub(super) fn next(
        &mut self,
        token: Token,
        outcome: Option<ReadOutcome>,
        block: &mut ReadBlock,
    ) -> Option<IoEvent> {
        let event = outcome.and_then(|outcome| self.event_for(outcome, token));
        let event = event.or_else(|| self.next_step(token, block));
        if event.is_some() {
            return event;
        }
        self.finish_round();
        let failure = self.failure.take();
        failure.map(|error| match self.phase {
            SocketPhase::Listening => IoEvent::AcceptFailed(token, error),
            _ => IoEvent::Failed(token, error),
        })
    }

    fn next_step(&mut self, token: Token, block: &mut ReadBlock) -> Option<IoEvent> {
        match self.phase {
            SocketPhase::Broken => None,
            SocketPhase::Connecting => self.finish_connect(token),
            SocketPhase::Listening | SocketPhase::Connected | SocketPhase::ConnectedAncillary => {
                let event = self.finish_write(token).or_else(|| self.read(token, block));
                event.or_else(|| self.report_peer_finish(token))
            }
        }
    }

    /// Tells that the peer has finished, if nobody reads. With an error it is `Failed` that tells the end; a
    /// hang-up alone says nothing of a peer: a socket that was never connected has it too.
    fn report_peer_finish(&mut self, token: Token) -> Option<IoEvent> {
        let finished = self.ready.contains_any(ReadyFlags::READ_END)
            && !self.ready.contains_any(ReadyFlags::ERROR);
        if !finished || !self.reports_peer_finish() {
            return None;
        }
        self.is_finish_reported = true;
        Some(IoEvent::PeerFinished(token))
    }

    fn finish_connect(&mut self, token: Token) -> Option<IoEvent> {
        let (writable, hung_up) = (
            self.ready.contains_any(ReadyFlags::WRITE),
            self.ready.contains_any(ReadyFlags::HANG_UP),
        );
        if !self.ready.take(ReadyFlags::WRITE | ReadyFlags::ERROR | ReadyFlags::HANG_UP) {
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
                self.phase = SocketPhase::connected(&self.socket);
                Some(IoEvent::Connected(token))
            }
            Ok(Some(error)) | Err(error) => {
                self.break_with(error);
                None
            }
        }
    }

    /// Ends the round: looks at what no step has dealt with.
    fn finish_round(&mut self) {
        let ready = self.ready;
        self.ready.take(ReadyFlags::ERROR | ReadyFlags::INVALID);
        self.round = ReadRound::Finished;
        if self.phase == SocketPhase::Broken {
            return;
        }
        self.is_hung_up |= ready.contains_any(ReadyFlags::HANG_UP);
        if ready.contains_any(ReadyFlags::INVALID) {
            self.break_with(Errno::BADF.into());
        }
        if ready.contains_any(ReadyFlags::ERROR) {
            match self.socket.take_error() {
                Ok(Some(error)) | Err(error) if self.phase == SocketPhase::Listening => {
                    self.failure = Some(error);
                }
                Ok(Some(error)) | Err(error) => self.break_with(error),
                Ok(None) => self.socket.drain_error_queue(),
            }
        }
    }

    /// Marks the socket as unusable: `Failed` is owed.
    pub(super) fn break_with(&mut self, error: io::Error) {
        self.phase = SocketPhase::Broken;
        self.failure = Some(error);
    }

    fn not_connected(&self, done: &str) -> io::Error {
        let is = match self.phase {
            SocketPhase::Listening => "a listener",
            SocketPhase::Connecting => "still connecting",
            SocketPhase::Connected | SocketPhase::ConnectedAncillary => "connected",
            SocketPhase::Broken => "broken",
        };
        let what = format!("a socket that is {is} cannot be {done}");
        io::Error::new(ErrorKind::NotConnected, what)
    }
}
