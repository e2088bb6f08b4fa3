//! Rounds of reads and accepts: the number of calls per round, and the event of each call.

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

/// Readiness besides data. With any of these a short read does not prove that the kernel's buffer is empty: a
/// read also stops short before urgent data.
const FLAGS_BESIDES_DATA: ReadyFlags =
    ReadyFlags::READ_END.or(ReadyFlags::HANG_UP).or(ReadyFlags::ERROR).or(ReadyFlags::PRIORITY);

/// The readiness flags to clear when a read returns EAGAIN.
const CLEARED_BY_EAGAIN: ReadyFlags =
    ReadyFlags::READ.or(ReadyFlags::PRIORITY).or(ReadyFlags::READ_END).or(ReadyFlags::HANG_UP);

/// The progress of the reads or accepts in this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadRound {
    /// No read was made yet.
    NotStarted,
    /// No read was made yet; a pending write was answered.
    WriteAnswered,
    /// Reads have begun; `left` more are allowed.
    Reading { left: u32 },
    /// `ReadComplete` was emitted, `Eof` is owed.
    EofOwed,
    /// The reads are over; other events may follow.
    ReadsDone,
    /// No more events in this round.
    Finished,
}

/// The outcome of one read or accept.
pub(in crate::drivers::readiness) enum ReadOutcome {
    /// Data or a connection; more may follow.
    Event(IoEvent),
    /// Nothing (EINTR, or a connection that was aborted before the accept): the call has to be repeated.
    Retry,
    /// EAGAIN.
    WouldBlock,
    /// The end of the stream.
    Eof,
    Error(io::Error),
}

impl ReadOutcome {
    #[cold]
    fn from_errno(error: Errno) -> Self {
        match error {
            Errno::AGAIN => ReadOutcome::WouldBlock,
            Errno::INTR => ReadOutcome::Retry,
            _ => ReadOutcome::Error(error.into()),
        }
    }
}

impl StreamEndpoint {
    /// Reads once if plain data is the only readiness, the usual case. Returns the bytes,
    /// and true if this was the last read of the round: the caller then owes its `ReadComplete`. Any
    /// other outcome is returned as an error, for [`next`](Self::next) to turn into an event.
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
                return Err(Some(ReadOutcome::from_errno(error)));
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

    /// True after a read that has emptied the kernel's buffer.
    #[inline(always)]
    pub(in crate::drivers::readiness) fn is_drained(&self) -> bool {
        self.ready == ReadyFlags::NONE
    }

    /// Returns the next event of the reads or accepts of this round.
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
                // More data may follow: an error after the data can wait until the next round. Entries in the error
                // queue cannot wait: until they are drained, no pending write is answered. A pending socket error is
                // found by a read after the data: PRIORITY keeps an earlier short read from ending the reads.
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
        // If reads were turned off after the end was found, a later read finds the end again.
        let at_end = std::mem::replace(&mut self.round, ReadRound::ReadsDone) == ReadRound::EofOwed;
        (at_end && self.plan.is_some()).then(|| self.report_eof(token))
    }

    /// Returns the event for the outcome of one read or accept; `None` if the call has to be repeated.
    pub(super) fn event_for(&mut self, outcome: ReadOutcome, token: Token) -> Option<IoEvent> {
        match outcome {
            ReadOutcome::Event(event) => Some(event),
            ReadOutcome::Retry => None,
            ReadOutcome::WouldBlock => {
                self.is_hung_up |= self.ready.contains_any(ReadyFlags::HANG_UP);
                self.ready.take(CLEARED_BY_EAGAIN);
                self.complete_reads(token, ReadRound::ReadsDone)
            }
            // The end was found before: `Eof` is emitted without a `ReadComplete` before it. Otherwise a loop that
            // turns reads off at each `ReadComplete` would never receive `Eof`.
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

    /// Turns reads off and returns `Eof`.
    fn report_eof(&mut self, token: Token) -> IoEvent {
        (self.is_eof_reported, self.plan) = (true, None);
        IoEvent::Eof(token)
    }

    /// Ends the reads of this round and returns `ReadComplete`.
    fn complete_reads(&mut self, token: Token, next: ReadRound) -> Option<IoEvent> {
        // If no readiness is left to check, this event is the last of the round.
        let is_last = next == ReadRound::ReadsDone
            && !self.ready.contains_any(CHECKED_AT_ROUND_END)
            && self.failure.is_none();
        self.round = if is_last { ReadRound::Finished } else { next };
        Some(IoEvent::ReadComplete(token))
    }

    /// Reads once. A short read is the last of its round, unless there is other readiness besides data.
    #[inline(always)]
    fn recv(&mut self, size: usize, block: &mut ReadBlock) -> Result<Bytes, ReadOutcome> {
        let bytes = block.recv(self.socket.as_fd(), size).map_err(ReadOutcome::from_errno)?;
        if bytes.is_empty() {
            return Err(ReadOutcome::Eof);
        }
        if bytes.len() < size && !self.ready.contains_any(FLAGS_BESIDES_DATA) {
            self.ready.take(ReadyFlags::READ);
            self.round = ReadRound::Reading { left: 0 };
        }
        Ok(bytes)
    }

    /// Reads once with `recvmsg`, and takes the ancillary data.
    fn recv_ancillary(&mut self, token: Token, size: usize, block: &mut ReadBlock) -> ReadOutcome {
        let (bytes, received) = match block.recv_ancillary(&self.socket, size) {
            Ok(received) => received,
            Err(error) => {
                let errno = Errno::from_io_error(&error);
                return errno.map_or_else(|| ReadOutcome::Error(error), ReadOutcome::from_errno);
            }
        };
        if bytes.is_empty() {
            return ReadOutcome::Eof;
        }
        // A read with passed descriptors ends at their message, however much data follows.
        let short = bytes.len() < size && received.message.passed.is_empty();
        if short && !self.ready.contains_any(FLAGS_BESIDES_DATA) {
            self.round = ReadRound::Reading { left: 0 };
        } else if let ReadRound::Reading { left } = self.round {
            let further_reads = ancillary::reads_for(&received.message) - 1;
            self.round = ReadRound::Reading { left: left.saturating_sub(further_reads) };
        }
        ReadOutcome::Event(match received.is_plain {
            true => IoEvent::Read(token, bytes),
            false => IoEvent::AncillaryMessage(
                token,
                Box::new(AncillaryMessage { bytes, ..received.message }),
            ),
        })
    }

    /// Accepts one connection.
    fn accept(&self, token: Token) -> ReadOutcome {
        match self.socket.accept() {
            Ok((socket, peer)) => ReadOutcome::Event(IoEvent::Accepted(token, socket.into(), peer)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => ReadOutcome::WouldBlock,
            Err(error) if is_transient_accept_error(&error) => ReadOutcome::Retry,
            Err(error) => ReadOutcome::Error(error),
        }
    }

    /// Records the error of a read or accept.
    fn on_read_error(&mut self, error: io::Error) {
        match self.phase {
            // One accept failed (EMFILE, ENFILE, ENOMEM, …), and the listener stays usable unless it was shut down.
            SocketPhase::Listening if !self.ready.contains_any(ReadyFlags::HANG_UP) => {
                self.failure = Some(error)
            }
            _ => self.break_with(error),
        }
    }
}

/// True if an accept failed because of one connection: the connection was aborted, or its
/// network path failed. The next connection may be fine.
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
