//! Rounds of reads and accepts: how many there may be, what each comes to, and what is said of it.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use bytes::Bytes;
use rustix::io::Errno;
use waterwheel_channel::driver::IoEvent;
use waterwheel_channel::{AncillaryMessage, Token};

use super::{CHECKED_AT_ROUND_END, SocketPhase, StreamEndpoint};
use crate::drivers::readiness::read_block::ReadBlock;
use crate::drivers::readiness::read_plan::READ_EVENTS;
use crate::drivers::selector::ReadyFlags;
use crate::sockets::ancillary;

/// Behind what there is to read there is something else: a short read is not the last one. Urgent data ends a read
/// that comes up to it.
const NOT_ONLY_DATA: ReadyFlags =
    ReadyFlags::READ_END.or(ReadyFlags::HANG_UP).or(ReadyFlags::ERROR).or(ReadyFlags::PRIORITY);

/// What a read that finds nothing shows to be over.
const CLEARED_BY_EAGAIN: ReadyFlags =
    ReadyFlags::READ.or(ReadyFlags::PRIORITY).or(ReadyFlags::READ_END).or(ReadyFlags::HANG_UP);

/// How far the reads, or accepts, of this round are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadRound {
    /// Not begun.
    NotStarted,
    /// Not begun; a write was answered.
    WriteAnswered,
    /// Begun; `left` reads may follow.
    Reading { left: u32 },
    /// `ReadComplete` was given out, `Eof` is owed.
    EofOwed,
    /// The reads are over; there may be something else to say.
    ReadsDone,
    /// Nothing more is to be said in this round.
    Finished,
}

/// What one read or accept came to.
pub(in crate::drivers::readiness) enum ReadOutcome {
    /// Something, and there may be more.
    Event(IoEvent),
    /// Nothing yet.
    Retry,
    WouldBlock,
    Eof,
    Error(io::Error),
}

impl ReadOutcome {
    #[cold]
    fn of_errno(error: Errno) -> Self {
        match error {
            Errno::AGAIN => ReadOutcome::WouldBlock,
            Errno::INTR => ReadOutcome::Retry,
            _ => ReadOutcome::Error(error.into()),
        }
    }
}

impl StreamEndpoint {
    /// Reads, if there is something to read and nothing else: so it is nearly always. Whether it is the
    /// last of its round: that is over then, but for its `ReadComplete`. Anything but bytes is for
    /// [`next`](Self::next) to say.
    #[inline(always)]
    pub(in crate::drivers::readiness) fn read_fast(
        &mut self,
        block: &mut ReadBlock,
    ) -> Result<(Bytes, bool), Option<ReadOutcome>> {
        let Some(plan) = self.plan else { return Err(None) };
        let left = match self.round {
            ReadRound::NotStarted => plan.max_reads,
            ReadRound::Reading { left } => left,
            _ => 0,
        };
        if self.phase != SocketPhase::Connected || self.ready != ReadyFlags::READ || left == 0 {
            return Err(None);
        }
        let bytes = match block.recv(self.socket.as_fd(), plan.size()) {
            Ok(bytes) if bytes.is_empty() => return Err(Some(ReadOutcome::Eof)),
            Ok(bytes) => bytes,
            Err(error) => {
                self.round = ReadRound::Reading { left: left - 1 };
                return Err(Some(ReadOutcome::of_errno(error)));
            }
        };
        if bytes.len() < plan.size() {
            (self.ready, self.round) = (ReadyFlags::NONE, ReadRound::NotStarted);
            return Ok((bytes, true));
        }
        self.round =
            if left > 1 { ReadRound::Reading { left: left - 1 } } else { ReadRound::Finished };
        Ok((bytes, left == 1))
    }

    /// True after a read that has outcome all there was.
    #[inline(always)]
    pub(in crate::drivers::readiness) fn is_drained(&self) -> bool {
        self.ready == ReadyFlags::NONE
    }

    pub(super) fn read(&mut self, token: Token, block: &mut ReadBlock) -> Option<IoEvent> {
        if matches!(self.round, ReadRound::NotStarted | ReadRound::WriteAnswered) {
            let plan = self.plan.filter(|_| self.ready.contains_any(READ_EVENTS))?;
            self.round = ReadRound::Reading { left: plan.max_reads };
        }
        while let ReadRound::Reading { left } = self.round {
            let Some(plan) = self.plan else {
                return self.complete_reads(token, ReadRound::ReadsDone);
            };
            let Some(left) = left.checked_sub(1) else {
                // There may be more to read: an error behind it has time until the next round. Notes in the
                // error queue have none: while they are there no pending write is answered.
                // An error that is no note is found by the read behind the data, which must not end before it.
                if self.ready.take(ReadyFlags::ERROR) {
                    self.socket.drain_error_queue();
                    self.ready |= ReadyFlags::PRIORITY;
                }
                return self.complete_reads(token, ReadRound::ReadsDone);
            };
            self.round = ReadRound::Reading { left };
            let outcome = match self.phase {
                SocketPhase::Listening => self.accept(token),
                SocketPhase::ConnectedAncillary => self.recv_ancillary(token, plan.size(), block),
                _ => match self.recv(plan.size(), block) {
                    Ok(bytes) => ReadOutcome::Event(IoEvent::Read(token, bytes)),
                    Err(outcome) => outcome,
                },
            };
            if let Some(event) = self.event_for(outcome, token) {
                return Some(event);
            }
        }
        // Reads may have gone off since the end was seen: it will be there when they are on again.
        let at_end = std::mem::replace(&mut self.round, ReadRound::ReadsDone) == ReadRound::EofOwed;
        (at_end && self.plan.is_some()).then(|| self.report_eof(token))
    }

    /// What is to be said of one read or accept; nothing: it is to be made again.
    pub(super) fn event_for(&mut self, outcome: ReadOutcome, token: Token) -> Option<IoEvent> {
        match outcome {
            ReadOutcome::Event(event) => Some(event),
            ReadOutcome::Retry => None,
            ReadOutcome::WouldBlock => {
                self.is_hung_up |= self.ready.contains_any(ReadyFlags::HANG_UP);
                self.ready.take(CLEARED_BY_EAGAIN);
                self.complete_reads(token, ReadRound::ReadsDone)
            }
            // Found again: it is told before reads can go off once more, or whoever turns them off after
            // each round would never learn of it.
            ReadOutcome::Eof if self.is_eof_found => {
                self.round = ReadRound::ReadsDone;
                Some(self.report_eof(token))
            }
            ReadOutcome::Eof => {
                self.is_eof_found = true;
                self.complete_reads(token, ReadRound::EofOwed)
            }
            ReadOutcome::Error(error) => {
                self.on_read_error(error);
                self.complete_reads(token, ReadRound::ReadsDone)
            }
        }
    }

    fn report_eof(&mut self, token: Token) -> IoEvent {
        (self.is_eof_reported, self.plan) = (true, None);
        IoEvent::Eof(token)
    }

    fn complete_reads(&mut self, token: Token, next: ReadRound) -> Option<IoEvent> {
        // If there is nothing left to settle it need not be asked again.
        let is_last = next == ReadRound::ReadsDone
            && !self.ready.contains_any(CHECKED_AT_ROUND_END)
            && self.failure.is_none();
        self.round = if is_last { ReadRound::Finished } else { next };
        Some(IoEvent::ReadComplete(token))
    }

    /// Reads once. A short read is the last of its round, unless something else is behind the data.
    #[inline(always)]
    fn recv(&mut self, size: usize, block: &mut ReadBlock) -> Result<Bytes, ReadOutcome> {
        let bytes = block.recv(self.socket.as_fd(), size).map_err(ReadOutcome::of_errno)?;
        if bytes.is_empty() {
            return Err(ReadOutcome::Eof);
        }
        if bytes.len() < size && !self.ready.contains_any(NOT_ONLY_DATA) {
            self.ready.take(ReadyFlags::READ);
            self.round = ReadRound::Reading { left: 0 };
        }
        Ok(bytes)
    }

    /// Reads once, and takes what came along.
    fn recv_ancillary(&mut self, token: Token, size: usize, block: &mut ReadBlock) -> ReadOutcome {
        let (bytes, received) = match block.recv_ancillary(&self.socket, size) {
            Ok(received) => received,
            Err(error) => {
                let errno = Errno::from_io_error(&error);
                return errno.map_or_else(|| ReadOutcome::Error(error), ReadOutcome::of_errno);
            }
        };
        if bytes.is_empty() {
            return ReadOutcome::Eof;
        }
        // With something passed a read ends where that does, however much there is behind it.
        let short = bytes.len() < size && received.message.passed.is_empty();
        if short && !self.ready.contains_any(NOT_ONLY_DATA) {
            self.round = ReadRound::Reading { left: 0 };
        } else if let ReadRound::Reading { left } = self.round {
            let besides_this = ancillary::reads_for(&received.message) - 1;
            self.round = ReadRound::Reading { left: left.saturating_sub(besides_this) };
        }
        ReadOutcome::Event(match received.is_plain {
            true => IoEvent::Read(token, bytes),
            false => IoEvent::AncillaryMessage(
                token,
                Box::new(AncillaryMessage { bytes, ..received.message }),
            ),
        })
    }

    fn accept(&self, token: Token) -> ReadOutcome {
        match self.socket.accept() {
            Ok((socket, peer)) => ReadOutcome::Event(IoEvent::Accepted(token, socket.into(), peer)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => ReadOutcome::WouldBlock,
            Err(error) if is_transient_accept_error(&error) => ReadOutcome::Retry,
            Err(error) => ReadOutcome::Error(error),
        }
    }

    fn on_read_error(&mut self, error: io::Error) {
        match self.phase {
            // One connection was not had; but a listener that was shut down will never have another.
            SocketPhase::Listening if !self.ready.contains_any(ReadyFlags::HANG_UP) => {
                self.failure = Some(error)
            }
            _ => self.break_with(error),
        }
    }
}

/// Whether an accept failed because of the one connection that was to be accepted: it has gone away
/// again, or something on its way has failed. The next may be there.
fn is_transient_accept_error(error: &io::Error) -> bool {
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
