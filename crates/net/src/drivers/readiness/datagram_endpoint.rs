//! One datagram socket: the events it is watched for, and the driver events that its readiness turns into.
//!
//! Datagrams are taken from the kernel in batches (`recvmmsg`) and handed out one by one:
//!
//! ```text
//!   kernel ── recvmmsg, at most 16 ──► DatagramBuffer ── copied, each at its own length ──► received ──► Datagram
//! ```
//!
//! The buffer belongs to the driver, has room for the largest possible datagrams, and is reused by the next
//! call. A datagram that is kept therefore takes only as much memory as its bytes.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;
use rustix::io::Errno;
use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Submit};
use waterwheel_channel::{Address, AncillaryMessage, Datagram, Token};

use super::read_plan::{PackedReadPlan, READ_EVENTS, max_steps};
use crate::address::{from_kernel, is_named};
use crate::drivers::selector::{ReadyFlags, WatchedEvents};
use crate::sockets::ancillary::{self, AncillaryRead};
use crate::sockets::datagram_socket::DatagramSocket;
use crate::sys::datagrams::{self, SendOutcome};

/// The memory that `recvmmsg` writes to. Empty until the first datagram.
#[derive(Default)]
pub(super) struct DatagramBuffer {
    bytes: Vec<u8>,
}

impl DatagramBuffer {
    /// Returns memory for a batch of datagrams of this size. Untouched pages take no physical memory.
    fn for_batch(&mut self, size: usize) -> &mut [u8] {
        let all = size * datagrams::BATCH;
        if self.bytes.len() < all {
            self.bytes = vec![0; all];
        }
        &mut self.bytes
    }
}

/// The progress of the reads in this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatagramRound {
    /// No read was made yet.
    NotStarted,
    /// Reads have begun; `left` more are allowed.
    Reading { left: u32 },
    /// `ReadComplete` was emitted: nothing is read until the next round.
    ReadsDone,
    /// No more events in this round.
    Finished,
}

/// A datagram socket and the readiness that the kernel has reported for it.
pub(super) struct DatagramEndpoint {
    socket: DatagramSocket,
    /// True if edge-triggered (EPOLLET): reported readiness is kept in `ready` until a system call disproves it.
    is_edge: bool,
    /// `Some` while reads are on.
    plan: Option<PackedReadPlan>,
    round: DatagramRound,
    /// True while `Wrote` or `Failed` is owed.
    write_pending: bool,
    /// True if the kernel has reported room (EPOLLOUT) and nothing was sent since.
    is_room_reported: bool,
    /// True if the socket can no longer be used.
    is_broken: bool,
    /// Readiness that the kernel has reported and no system call has disproved yet.
    ready: ReadyFlags,
    /// An owed `ReceiveFailed`, or `Failed` if the socket is broken; emitted as the last event of the round.
    failure: Option<io::Error>,
}

impl DatagramEndpoint {
    /// Wraps a socket; edge-triggered if the selector supports it.
    pub(super) fn new(socket: DatagramSocket, is_edge: bool) -> Self {
        let (plan, round, ready, failure) =
            (None, DatagramRound::NotStarted, ReadyFlags::NONE, None);
        let (write_pending, is_room_reported, is_broken) = (false, false, false);
        Self {
            socket,
            is_edge,
            plan,
            round,
            write_pending,
            is_room_reported,
            is_broken,
            ready,
            failure,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn socket(&self) -> &DatagramSocket {
        &self.socket
    }

    pub(super) fn into_socket(self) -> DatagramSocket {
        self.socket
    }

    /// Returns the events to watch for; `None` if the socket need not be in the set.
    pub(super) fn wanted_events(&self) -> Option<WatchedEvents> {
        let mut wanted = Interest::NONE;
        if self.plan.is_some() {
            wanted = wanted | Interest::READABLE;
        }
        if self.write_pending {
            wanted = wanted | Interest::WRITABLE;
        }
        // EPOLLERR is reported for any interest. While reads are off and no write is pending, the socket leaves the
        // set, and the error waits for the next read or write.
        let watch = WatchedEvents { interest: wanted, read_end: false, edge: self.is_edge };
        (!self.is_broken && !wanted.is_empty()).then_some(watch)
    }

    /// Records readiness reported by the kernel; returns true if the endpoint needs a visit in this round.
    pub(super) fn on_ready(&mut self, ready: ReadyFlags) -> bool {
        self.ready |= ready;
        if !self.write_pending {
            self.ready.take(ReadyFlags::WRITE);
        }
        !self.is_edge || self.has_work()
    }

    /// True if a visit would find something to do, by the recorded readiness. An error waits until reads are on
    /// or a write is pending.
    pub(super) fn has_work(&self) -> bool {
        let (reads, ready) = (self.plan.is_some(), self.ready);
        let is_awaited = (reads || self.write_pending)
            && ready.contains_any(ReadyFlags::ERROR | ReadyFlags::INVALID)
            || reads && (ready.contains_any(READ_EVENTS) || !self.socket.received.is_empty())
            || self.write_pending && ready.contains_any(ReadyFlags::WRITE);
        is_awaited && !self.is_broken || self.failure.is_some()
    }

    /// Marks the socket as unusable: `Failed` is owed.
    pub(super) fn break_with(&mut self, error: io::Error) {
        (self.is_broken, self.failure) = (true, Some(error));
    }

    /// True while the visit may still produce an event.
    pub(super) fn is_visit_open(&self) -> bool {
        let is_over = self.is_broken || self.round == DatagramRound::Finished;
        let is_idle = self.round == DatagramRound::NotStarted && self.ready == ReadyFlags::NONE;
        !is_over && !is_idle || self.failure.is_some()
    }

    /// Ends the visit; returns true if the endpoint needs another one in the next round.
    pub(super) fn end_visit(&mut self) -> bool {
        self.round = DatagramRound::NotStarted;
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
        let is_open = matches!(self.round, DatagramRound::Reading { .. });
        self.round = DatagramRound::Finished;
        is_open.then_some(IoEvent::ReadComplete(token))
    }

    /// Turns reads on with this plan, or off.
    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        self.plan = plan.map(PackedReadPlan::of);
    }

    /// Sends the first datagrams of a batch in one `sendmmsg` call.
    pub(super) fn send(
        &mut self,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> io::Result<Submit> {
        self.check_sendable()?;
        let mut first = None;
        let mut batch = batch.inspect(|datagram| _ = first.get_or_insert(datagram.peer()));
        let SendOutcome { result, earlier_error } =
            datagrams::send(self.socket.as_fd(), &mut batch);
        if earlier_error.is_some() {
            self.failure = earlier_error;
        }
        self.on_submitted(result, first.flatten())
    }

    /// Sends one datagram with ancillary data.
    pub(super) fn send_ancillary(&mut self, message: &AncillaryMessage) -> io::Result<Submit> {
        self.check_sendable()?;
        let to = message.peer.as_ref();
        let sent = ancillary::send(&self.socket.socket, message, to);
        self.on_submitted(sent.map(|_| 1), to)
    }

    /// Returns an error if a datagram may not be sent now.
    fn check_sendable(&self) -> io::Result<()> {
        if self.write_pending || self.is_broken {
            let what = "cannot send a datagram: the socket is broken, or its previous write is still pending";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        Ok(())
    }

    /// Translates the result of a send to this address, or to the connected peer.
    fn on_submitted(
        &mut self,
        sent: io::Result<usize>,
        to: Option<&Address>,
    ) -> io::Result<Submit> {
        match (sent, to) {
            (Ok(n), _) => {
                self.is_room_reported = false;
                Ok(Submit::Done(n))
            }
            (Err(error), _) if error.kind() != ErrorKind::WouldBlock => Err(error),
            // The receiver's buffer is full, not the buffer of this socket. The kernel does not report when an
            // unconnected receiver has room again; instead it would report EPOLLOUT for this socket at once, in every
            // wait.
            (Err(_), Some(to)) if self.is_room_reported && !self.can_wait_for_room(to) => {
                let what = format!(
                    "the receive queue of {to} is full (EAGAIN): connect the socket to wait for room"
                );
                Err(io::Error::new(ErrorKind::WouldBlock, what))
            }
            (Err(_), _) => {
                self.write_pending = true;
                self.ready.take(ReadyFlags::WRITE);
                Ok(Submit::Full)
            }
        }
    }

    /// True if the kernel reports when this address has room again. True for the connected peer of an IP
    /// socket. A connected Unix socket may also send to other addresses, and the kernel does not
    /// report when those have room.
    fn can_wait_for_room(&self, to: &Address) -> bool {
        let socket = &self.socket.socket;
        socket.has_peer() && !matches!(to, Address::Unix(_))
    }

    /// Returns the next event of this round.
    pub(super) fn next(&mut self, token: Token, buffer: &mut DatagramBuffer) -> Option<IoEvent> {
        if self.ready.take(ReadyFlags::WRITE) && std::mem::take(&mut self.write_pending) {
            self.is_room_reported = true;
            return Some(IoEvent::Wrote(token, 0));
        }
        if !self.is_broken
            && let Some(event) = self.read(token, buffer)
        {
            return Some(event);
        }
        self.finish_round();
        let failure = self.failure.take();
        failure.map(|error| match self.is_broken {
            true => IoEvent::Failed(token, error),
            false => IoEvent::ReceiveFailed(token, error),
        })
    }

    /// Returns the next event of the reads: a datagram, or their `ReadComplete`.
    fn read(&mut self, token: Token, buffer: &mut DatagramBuffer) -> Option<IoEvent> {
        if self.round == DatagramRound::NotStarted {
            let is_readable =
                self.ready.contains_any(READ_EVENTS) || !self.socket.received.is_empty();
            let plan = self.plan.filter(|_| is_readable)?;
            self.round = DatagramRound::Reading { left: plan.max_reads };
        }
        let DatagramRound::Reading { left } = self.round else { return None };
        // Datagrams received before reads were turned off wait in `received`, as others wait in the
        // kernel.
        if let (Some(plan), 1..) = (self.plan, left) {
            if self.socket.received.is_empty() && self.ready.contains_any(READ_EVENTS) {
                if !self.socket.socket.receives_ancillary() {
                    self.receive(plan.size(), left as usize, buffer);
                } else if let Some(message) = self.receive_ancillary(plan.size(), buffer) {
                    let left = left.saturating_sub(ancillary::reads_for(&message));
                    self.round = DatagramRound::Reading { left };
                    return Some(IoEvent::AncillaryMessage(token, Box::new(message)));
                }
            }
            if let Some(datagram) = self.socket.received.pop_front() {
                self.round = DatagramRound::Reading { left: left - 1 };
                return Some(IoEvent::Datagram(token, datagram));
            }
        }
        // An error that no read has found is checked at the end of the round, after the reads.
        let is_last = !self.ready.contains_any(ReadyFlags::ERROR | ReadyFlags::INVALID)
            && self.failure.is_none();
        self.round = if is_last { DatagramRound::Finished } else { DatagramRound::ReadsDone };
        Some(IoEvent::ReadComplete(token))
    }

    /// Receives a batch of at most `left` datagrams. A short batch shows that the kernel has no more.
    fn receive(&mut self, size: usize, left: usize, buffer: &mut DatagramBuffer) {
        let DatagramSocket { socket, received } = &mut self.socket;
        let (bytes, max) = (buffer.for_batch(size), left.min(datagrams::BATCH));
        let outcome =
            datagrams::receive(socket.as_fd(), bytes, size, max, |datagram, whole, from| {
                let from = from.and_then(from_kernel).filter(is_named);
                let datagram = Datagram::received(from, Bytes::copy_from_slice(datagram), whole);
                received.push_back(Box::new(datagram));
            });
        match outcome {
            Ok(n) if n == max => {}
            // An error or end of stream that was reported as well is found by the next read, after these
            // datagrams.
            Ok(_) => _ = self.ready.take(ReadyFlags::READ),
            Err(error) => self.on_receive_error(error),
        }
    }

    /// Receives one datagram with `recvmsg`; returns it if it carries ancillary data, and queues it otherwise.
    fn receive_ancillary(
        &mut self,
        size: usize,
        buffer: &mut DatagramBuffer,
    ) -> Option<AncillaryMessage> {
        let DatagramSocket { socket, received } = &mut self.socket;
        let bytes = &mut buffer.for_batch(size)[..size];
        match ancillary::receive(socket, bytes, true) {
            Ok(AncillaryRead { whole, is_plain, message }) => {
                let bytes = Bytes::copy_from_slice(&bytes[..whole.min(size)]);
                if !is_plain {
                    return Some(AncillaryMessage { bytes, ..message });
                }
                received.push_back(Box::new(Datagram::received(message.peer, bytes, whole)));
            }
            Err(error) => self.on_receive_error(error),
        }
        None
    }

    fn on_receive_error(&mut self, error: io::Error) {
        match error.kind() {
            // The socket was shut down (shutdown(2)); the kernel would report that in every wait.
            ErrorKind::WouldBlock
                if self.ready.contains_any(ReadyFlags::READ_END | ReadyFlags::HANG_UP) =>
            {
                self.break_with(ErrorKind::UnexpectedEof.into());
            }
            ErrorKind::WouldBlock => _ = self.ready.take(ReadyFlags::READ),
            ErrorKind::Interrupted => {}
            _ => {
                // This read has consumed the pending error; other readiness waits for the next round.
                self.ready.take(ReadyFlags::ERROR);
                self.fail(error);
            }
        }
    }

    /// Records an error; EBADF, ENOTSOCK, EINVAL and EFAULT break the socket.
    fn fail(&mut self, error: io::Error) {
        let fatal = [Errno::BADF, Errno::NOTSOCK, Errno::INVAL, Errno::FAULT];
        self.is_broken |= Errno::from_io_error(&error).is_some_and(|errno| fatal.contains(&errno));
        self.failure = Some(error);
    }

    /// Ends the round: handles the readiness that no read or write has consumed.
    fn finish_round(&mut self) {
        let ready = self.ready;
        self.ready.take(ReadyFlags::ERROR | ReadyFlags::INVALID);
        self.round = DatagramRound::Finished;
        if ready.contains_any(ReadyFlags::INVALID) {
            self.break_with(Errno::BADF.into());
        } else if ready.contains_any(ReadyFlags::ERROR) && self.failure.is_none() {
            match self.socket.socket.take_error() {
                Ok(Some(error)) | Err(error) => self.fail(error),
                // A send has consumed the error, or the error queue has entries (IP_RECVERR, SO_TIMESTAMPING).
                Ok(None) => self.socket.socket.drain_error_queue(),
            }
        }
    }
}
