//! Rounds of reads and accepts: how many there may be, what each comes to, and what is said of it.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use bytes::Bytes;
use rustix::io::Errno;
use waterwheel_channel::driver::IoEvent;
use waterwheel_channel::{Parcel, Token};

use super::{Endpoint, Phase, TO_SETTLE};
use crate::drivers::readiness::read_block::ReadBlock;
use crate::drivers::readiness::read_plan::READ_WILL_TELL;
use crate::drivers::selector::Ready;
use crate::sockets::ancillary;

/// Behind what there is to read there is something else: a short read is not the last one. Urgent data ends a read
/// that comes up to it.
const MORE_THAN_DATA: Ready =
    Ready::READ_END.or(Ready::HANG_UP).or(Ready::ERROR).or(Ready::PRIORITY);

/// What a read that finds nothing shows to be over.
const DATA: Ready = Ready::READ.or(Ready::PRIORITY).or(Ready::READ_END).or(Ready::HANG_UP);

/// How far the reads, or accepts, of this round are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// Not begun.
    Waiting,
    /// Not begun; a write was answered.
    Written,
    /// Begun; `left` reads may follow.
    Reading { left: u32 },
    /// `ReadComplete` was given out, `Eof` is owed.
    AtEnd,
    /// The reads are over; there may be something else to say.
    Over,
    /// Nothing more is to be said in this round.
    Settled,
}

/// What one read or accept came to.
pub(in crate::drivers::readiness) enum Taken {
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
    /// Reads, if there is something to read and nothing else: so it is nearly always. Whether it is the
    /// last of its round: that is over then, but for its `ReadComplete`. Anything but bytes is for
    /// [`next`](Self::next) to say.
    #[inline(always)]
    pub(in crate::drivers::readiness) fn read_plainly(
        &mut self,
        block: &mut ReadBlock,
    ) -> Result<(Bytes, bool), Option<Taken>> {
        let Some(plan) = self.plan else { return Err(None) };
        let left = match self.round {
            Round::Waiting => plan.max_reads,
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
        if bytes.len() < plan.size() {
            (self.ready, self.round) = (Ready::NONE, Round::Waiting);
            return Ok((bytes, true));
        }
        self.round = if left > 1 { Round::Reading { left: left - 1 } } else { Round::Settled };
        Ok((bytes, left == 1))
    }

    /// True after a read that has taken all there was.
    #[inline(always)]
    pub(in crate::drivers::readiness) fn is_drained(&self) -> bool {
        self.ready == Ready::NONE
    }

    pub(super) fn read(&mut self, token: Token, block: &mut ReadBlock) -> Option<IoEvent> {
        if matches!(self.round, Round::Waiting | Round::Written) {
            let plan = self.plan.filter(|_| self.ready.any(READ_WILL_TELL))?;
            self.round = Round::Reading { left: plan.max_reads };
        }
        while let Round::Reading { left } = self.round {
            let Some(plan) = self.plan else { return self.complete(token, Round::Over) };
            let Some(left) = left.checked_sub(1) else {
                // There may be more to read: an error behind it has time until the next round. Notes in the
                // error queue have none: while they are there no pending write is answered.
                // An error that is no note is found by the read behind the data, which must not end before it.
                if self.ready.take(Ready::ERROR) {
                    self.socket.drain_error_queue();
                    self.ready |= Ready::PRIORITY;
                }
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
        (at_end && self.plan.is_some()).then(|| self.end(token))
    }

    /// What is to be said of one read or accept; nothing: it is to be made again.
    pub(super) fn told_by(&mut self, taken: Taken, token: Token) -> Option<IoEvent> {
        match taken {
            Taken::Event(event) => Some(event),
            Taken::Again => None,
            Taken::Nothing => {
                self.hung_up |= self.ready.any(Ready::HANG_UP);
                self.ready.take(DATA);
                self.complete(token, Round::Over)
            }
            // Found again: it is told before reads can go off once more, or whoever turns them off after
            // each round would never learn of it.
            Taken::End if self.end_found => {
                self.round = Round::Over;
                Some(self.end(token))
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

    fn end(&mut self, token: Token) -> IoEvent {
        (self.ended, self.plan) = (true, None);
        IoEvent::Eof(token)
    }

    fn complete(&mut self, token: Token, next: Round) -> Option<IoEvent> {
        // If there is nothing left to settle it need not be asked again.
        let is_last = next == Round::Over && !self.ready.any(TO_SETTLE) && self.failure.is_none();
        self.round = if is_last { Round::Settled } else { next };
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
            self.ready.take(Ready::READ);
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
        } else if let Round::Reading { left } = self.round {
            let besides_this = ancillary::reads_for(&received.parcel) - 1;
            self.round = Round::Reading { left: left.saturating_sub(besides_this) };
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
