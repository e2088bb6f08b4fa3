//! Writes: bytes that the kernel accepts at once, and writes that wait for room in the send buffer.

use std::io::{self, ErrorKind};

use rustix::io::Errno;
use waterwheel_channel::driver::{IoEvent, OutQueue, Submit};
use waterwheel_channel::{AncillaryMessage, FileRegion, Token};

use super::reading::ReadRound;
use super::{SocketPhase, StreamEndpoint};
use crate::drivers::selector::ReadyFlags;
use crate::sockets::ancillary;
use crate::sockets::socket::Socket;

impl StreamEndpoint {
    /// Writes the front of a queue in one system call.
    #[inline]
    pub(in crate::drivers::readiness) fn write(&mut self, queue: &OutQueue) -> io::Result<Submit> {
        self.write_with(|socket| socket.send(queue))
    }

    /// Writes bytes in one system call.
    #[inline]
    pub(in crate::drivers::readiness) fn write_slice(
        &mut self,
        bytes: &[u8],
    ) -> io::Result<Submit> {
        self.write_with(|socket| socket.send_slice(bytes))
    }

    #[inline(always)]
    fn write_with(
        &mut self,
        send: impl FnOnce(&Socket) -> rustix::io::Result<usize>,
    ) -> io::Result<Submit> {
        if self.write_pending || self.phase < SocketPhase::Connected {
            return Err(self.write_refusal());
        }
        match send(&self.socket) {
            Ok(n) => Ok(Submit::Done(n)),
            Err(Errno::AGAIN) => Ok(self.on_full()),
            Err(error) => {
                self.phase = SocketPhase::Broken;
                Err(error.into())
            }
        }
    }

    /// Sends the front of a file region in one system call.
    pub(in crate::drivers::readiness) fn send_file(
        &mut self,
        file: &FileRegion,
    ) -> io::Result<Submit> {
        self.check_writable()?;
        let sent = self.socket.send_file(file);
        self.on_submitted(sent)
    }

    /// Sends bytes with ancillary data.
    pub(in crate::drivers::readiness) fn send_ancillary(
        &mut self,
        message: &AncillaryMessage,
    ) -> io::Result<Submit> {
        self.check_writable()?;
        match ancillary::send(&self.socket, message, None) {
            // Refused before anything was sent: the stream stays usable.
            Err(error) if ancillary::is_refused(&error) => Err(error),
            sent => self.on_submitted(sent),
        }
    }

    /// Returns an error if the socket may not be written to now.
    fn check_writable(&self) -> io::Result<()> {
        match self.write_pending || self.phase < SocketPhase::Connected {
            true => Err(self.write_refusal()),
            false => Ok(()),
        }
    }

    /// Translates the result of a send.
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

    /// Records that a write found no room (EAGAIN). The kernel reports room from this moment on. A hang-up is
    /// cleared as well: a stream that was hung up would have failed the write.
    fn on_full(&mut self) -> Submit {
        self.write_pending = true;
        self.ready.take(ReadyFlags::WRITE | ReadyFlags::HANG_UP);
        Submit::Full
    }

    #[cold]
    fn write_refusal(&self) -> io::Error {
        if self.write_pending {
            let what = "cannot write: the previous write is pending until its Wrote or Failed";
            return io::Error::new(ErrorKind::InvalidInput, what);
        }
        self.wrong_phase("written to")
    }

    /// Answers a pending write if there is room, or after a hang-up, for which a new write returns the error.
    pub(super) fn finish_write(&mut self, token: Token) -> Option<IoEvent> {
        // With an error, `Failed` answers the write. After a hang-up the next write returns the error; Unix
        // sockets report no EPOLLOUT then, and would report the hang-up in every wait.
        let answer = self.ready.contains_any(ReadyFlags::WRITE | ReadyFlags::HANG_UP)
            && !self.ready.contains_any(ReadyFlags::ERROR);
        if !self.write_pending || !answer || self.round != ReadRound::NotStarted {
            return None;
        }
        self.write_pending = false;
        self.ready.take(ReadyFlags::WRITE);
        if self.ready.contains_any(ReadyFlags::HANG_UP) {
            self.round = ReadRound::WriteAnswered; // A lasting hang-up answers one write per round.
        }
        Some(IoEvent::Wrote(token, 0))
    }
}
