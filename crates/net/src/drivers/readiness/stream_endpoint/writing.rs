//! Writes: what the kernel takes at once, and what waits for room.

use std::io::{self, ErrorKind};

use rustix::io::Errno;
use waterwheel_channel::driver::{IoEvent, OutQueue, Submit};
use waterwheel_channel::{AncillaryMessage, FileRegion, Token};

use super::reading::ReadRound;
use super::{SocketPhase, StreamEndpoint};
use crate::drivers::selector::ReadyFlags;
use crate::sockets::ancillary;

impl StreamEndpoint {
    #[inline]
    pub(in crate::drivers::readiness) fn write(&mut self, queue: &OutQueue) -> io::Result<Submit> {
        if self.write_pending || self.phase < SocketPhase::Connected {
            return Err(self.write_refusal());
        }
        match self.socket.send(queue) {
            Ok(n) => Ok(Submit::Done(n)),
            Err(Errno::AGAIN) => Ok(self.on_full()),
            Err(error) => {
                self.phase = SocketPhase::Broken;
                Err(error.into())
            }
        }
    }

    pub(in crate::drivers::readiness) fn send_file(
        &mut self,
        file: &FileRegion,
    ) -> io::Result<Submit> {
        self.check_writable()?;
        let sent = self.socket.send_file(file);
        self.on_submitted(sent)
    }

    pub(in crate::drivers::readiness) fn send_ancillary(
        &mut self,
        message: &AncillaryMessage,
    ) -> io::Result<Submit> {
        self.check_writable()?;
        match ancillary::send(&self.socket, message, None) {
            // It was looked at, and not sent.
            Err(error) if ancillary::is_refused(&error) => Err(error),
            sent => self.on_submitted(sent),
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        match self.write_pending || self.phase < SocketPhase::Connected {
            true => Err(self.write_refusal()),
            false => Ok(()),
        }
    }

    fn on_submitted(&mut self, sent: io::Result<usize>) -> io::Result<Submit> {
        match sent {
            Ok(n) => Ok(Submit::Done(n)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(self.on_full()),
            Err(error) => {
                self.phase = SocketPhase::Broken;
                Err(error)
            }
        }
    }

    /// Notes that a write found no room. The kernel says when there is some, from this moment on; and a stream
    /// that was hung up would have refused the write.
    fn on_full(&mut self) -> Submit {
        self.write_pending = true;
        self.ready.take(ReadyFlags::WRITE | ReadyFlags::HANG_UP);
        Submit::Full
    }

    #[cold]
    fn write_refusal(&self) -> io::Error {
        if self.write_pending {
            let what = "a write is pending: no other may be begun before its Wrote or Failed";
            return io::Error::new(ErrorKind::InvalidInput, what);
        }
        self.not_connected("written to")
    }

    /// Answers a pending write, if there is room or the write itself will tell why there is none.
    pub(super) fn finish_write(&mut self, token: Token) -> Option<IoEvent> {
        // With an error `Failed` answers the write. After a hang-up the write itself will tell; local
        // sockets report no room then, and would report the hang-up for ever.
        let answer = self.ready.contains_any(ReadyFlags::WRITE | ReadyFlags::HANG_UP)
            && !self.ready.contains_any(ReadyFlags::ERROR);
        if !self.write_pending || !answer || self.round != ReadRound::NotStarted {
            return None;
        }
        self.write_pending = false;
        self.ready.take(ReadyFlags::WRITE);
        if self.ready.contains_any(ReadyFlags::HANG_UP) {
            self.round = ReadRound::WriteAnswered; // The hang-up lasts, and answers no other write of this round.
        }
        Some(IoEvent::Wrote(token, 0))
    }
}
