//! One stream socket, connected, connecting or listening: the events it is watched for, and the driver events
//! that its readiness turns into.
//!
//! The order of events in one round is the order of the steps in [`StreamEndpoint::next`]. Each step makes at
//! most one system call and returns at most one event, so the loop's reaction to an event (reads off, detached)
//! takes effect before the next call.
//!
//! ```text
//!   Connecting ──► Connected ◄──► ConnectedAncillary ──► Broken          Listening
//!         └─────────────┴─────────────────────────────────▲
//! ```
//!
//! Reported readiness is kept in `ready` until a system call disproves it: a short read or EAGAIN clears
//! readability, a write that finds no room clears writability. For a level-triggered socket, `ready` is cleared
//! at the end of each visit instead, because the kernel reports it again.

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

/// Readiness that is checked at the end of a round: an error, a hang-up, or EPOLLRDHUP while reads are off.
const CHECKED_AT_ROUND_END: ReadyFlags =
    ReadyFlags::ERROR.or(ReadyFlags::INVALID).or(ReadyFlags::HANG_UP).or(ReadyFlags::READ_END);

/// A stream socket or listener and the readiness that the kernel has reported for it.
pub(super) struct StreamEndpoint {
    socket: Socket,
    phase: SocketPhase,
    /// True if edge-triggered (EPOLLET).
    is_edge: bool,
    /// `Some` while reads are on and `Eof` was not emitted.
    plan: Option<PackedReadPlan>,
    round: ReadRound,
    /// True after a read has found the end of the stream. Reads may have been turned off before `Eof` was emitted.
    is_eof_found: bool,
    /// True after `Eof` was emitted.
    is_eof_reported: bool,
    /// True if `PeerFinished` was emitted or is not needed. EPOLLRDHUP is then no longer requested: the condition
    /// lasts, and every wait would report it.
    is_finish_reported: bool,
    /// True while `Wrote` or `Failed` is owed.
    write_pending: bool,
    /// True after EPOLLHUP, which lasts and cannot be masked: a socket that wants nothing else leaves the
    /// set.
    is_hung_up: bool,
    /// Readiness that the kernel has reported and no system call has disproved yet. `WRITE` is kept only while
    /// a write or a connect is pending; otherwise the next write discovers whether there is room.
    ready: ReadyFlags,
    /// An owed `Failed`, or `AcceptFailed` of a listener; emitted as the last event of the round.
    failure: Option<io::Error>,
}

/// The phase of the socket. The order matters: every phase from `Connected` on is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum SocketPhase {
    /// The socket can no longer be used.
    Broken,
    Listening,
    Connecting,
    Connected,
    /// Connected, and reads use `recvmsg` because they may carry ancillary data. Other sockets keep the cheaper
    /// `recv`.
    ConnectedAncillary,
}

impl SocketPhase {
    /// Returns the phase of a socket with a peer.
    fn connected(socket: &Socket) -> Self {
        if socket.receives_ancillary() {
            SocketPhase::ConnectedAncillary
        } else {
            SocketPhase::Connected
        }
    }
}

impl StreamEndpoint {
    /// Wraps a socket, and begins to connect it if its role says so. With `edges` a TCP socket is edge-triggered:
    /// only for TCP does a short read show that the kernel's buffer is empty.
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
                let what = format!(
                    "the readiness driver does not support sockets with the role {other:?}"
                );
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

    /// True if the socket is edge-triggered (EPOLLET).
    pub(super) fn is_edge_triggered(&self) -> bool {
        self.is_edge
    }

    /// Returns the events to watch for; `None` if the socket must not be in the set.
    pub(super) fn wanted_events(&self) -> Option<WatchedEvents> {
        // An edge-triggered socket also needs EPOLLPRI, because a read stops short at urgent data.
        let readable = match self.is_edge {
            true => Interest::READABLE | Interest::PRIORITY,
            false => Interest::READABLE,
        };
        let mut wanted = Interest::NONE;
        match self.phase {
            SocketPhase::Broken => return None,
            // The events of the connected socket are requested now, which saves an `epoll_ctl` call later.
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

    /// True while reads are off and `PeerFinished` has not been emitted.
    fn reports_peer_finish(&self) -> bool {
        let is_silent = self.plan.is_none() && self.phase >= SocketPhase::Connected;
        is_silent && !self.is_eof_reported && !self.is_finish_reported
    }

    /// Records readiness reported by the kernel; returns true if the endpoint needs a visit in this round.
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

    /// True if a visit would find something to do, by the recorded readiness.
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

    /// True while the visit may still produce an event.
    #[inline]
    pub(super) fn is_visit_open(&self) -> bool {
        match self.round {
            ReadRound::NotStarted => self.ready != ReadyFlags::NONE || self.failure.is_some(),
            ReadRound::Finished => false,
            _ => true,
        }
    }

    /// Ends the visit; returns true if the endpoint needs another one in the next round.
    pub(super) fn end_visit(&mut self) -> bool {
        self.round = ReadRound::NotStarted;
        if !self.is_edge {
            self.ready = ReadyFlags::NONE;
        }
        self.has_work()
    }

    /// Returns the maximum number of steps in one round.
    pub(super) fn max_steps(&self) -> u32 {
        max_steps(self.plan)
    }

    /// Ends the round early; returns the owed `ReadComplete` if reads had begun.
    pub(super) fn cut_round(&mut self, token: Token) -> Option<IoEvent> {
        let is_open = matches!(self.round, ReadRound::Reading { .. });
        self.round = ReadRound::Finished;
        is_open.then_some(IoEvent::ReadComplete(token))
    }

    /// Adapts the phase to an option that may have turned ancillary data on or off.
    pub(super) fn on_option_set(&mut self) {
        if self.phase >= SocketPhase::Connected {
            self.phase = SocketPhase::connected(&self.socket);
        }
    }

    /// Turns reads on with this plan, or off; reads stay off after the end of the stream.
    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        self.plan = plan.filter(|_| !self.is_eof_reported).map(PackedReadPlan::of);
    }

    /// Returns an error if the socket may not leave the driver now: while it connects, the kernel still works
    /// on it.
    pub(super) fn check_releasable(&self) -> io::Result<()> {
        match self.phase {
            SocketPhase::Connecting => Err(self.wrong_phase("released")),
            _ => Ok(()),
        }
    }

    pub(super) fn into_socket(self) -> Socket {
        self.socket
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Shuts down one or both directions.
    pub(super) fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        // A shutdown would turn a connecting socket or a listener into one that was never connected.
        if matches!(self.phase, SocketPhase::Connecting | SocketPhase::Listening) {
            return Err(self.wrong_phase("shut down"));
        }
        SockRef::from(&self.socket).shutdown(how)?;
        // The kernel reports EPOLLRDHUP for an input that was shut down locally, too.
        self.is_finish_reported |= how != Shutdown::Write;
        Ok(())
    }

    /// Returns the next event of this round; `outcome` is the result of a read that the caller has made.
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

    /// Emits `PeerFinished` if the peer has finished and reads are off. After an error, `Failed` is emitted
    /// instead. EPOLLHUP alone proves no peer: the kernel also reports EPOLLHUP for a socket that was never connected.
    fn report_peer_finish(&mut self, token: Token) -> Option<IoEvent> {
        let finished = self.ready.contains_any(ReadyFlags::READ_END)
            && !self.ready.contains_any(ReadyFlags::ERROR);
        if !finished || !self.reports_peer_finish() {
            return None;
        }
        self.is_finish_reported = true;
        Some(IoEvent::PeerFinished(token))
    }

    /// Emits `Connected`, or breaks the socket with the error of the connect.
    fn finish_connect(&mut self, token: Token) -> Option<IoEvent> {
        let (writable, hung_up) = (
            self.ready.contains_any(ReadyFlags::WRITE),
            self.ready.contains_any(ReadyFlags::HANG_UP),
        );
        if !self.ready.take(ReadyFlags::WRITE | ReadyFlags::ERROR | ReadyFlags::HANG_UP) {
            return None;
        }
        match self.socket.take_error() {
            // A hang-up without an error: the connect was aborted through another descriptor of the socket.
            Ok(None) if hung_up && !self.socket.has_peer() => {
                self.break_with(ErrorKind::NotConnected.into());
                None
            }
            // EPOLLERR came from the error queue only: the connect is still in progress.
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

    /// Ends the round: handles the readiness that no step has consumed.
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

    fn wrong_phase(&self, operation: &str) -> io::Error {
        let is = match self.phase {
            SocketPhase::Listening => "a listener",
            SocketPhase::Connecting => "still connecting",
            SocketPhase::Connected | SocketPhase::ConnectedAncillary => "connected",
            SocketPhase::Broken => "broken",
        };
        let what = format!("a socket that is {is} cannot be {operation}");
        io::Error::new(ErrorKind::NotConnected, what)
    }
}
