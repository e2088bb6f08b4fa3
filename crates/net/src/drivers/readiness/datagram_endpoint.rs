//! One socket for datagrams: what is watched for it, and which events its readiness turns into.
//!
//! Datagrams are outcome from the kernel several at a time, and given out one by one:
//!
//! ```text
//!   kernel ── one call, at max 16 ──► buffer ── copied out, each as long as it is ──► received ──► Datagram
//! ```
//!
//! The buffer has room for the largest datagrams there may be, belongs to the driver, and is used again by
//! the next call: what is kept of a datagram is as long as the datagram.

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

/// Where the kernel puts what it is asked for. Nothing, until the first datagram.
#[derive(Default)]
pub(super) struct DatagramBuffer {
    room: Vec<u8>,
}

impl DatagramBuffer {
    /// Room for a batch of datagrams of this size. Pages that nothing was written to take no memory.
    fn room(&mut self, size: usize) -> &mut [u8] {
        let all = size * datagrams::BATCH;
        if self.room.len() < all {
            self.room = vec![0; all];
        }
        &mut self.room
    }
}

/// How far the reads of this round are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatagramRound {
    /// Not begun.
    NotStarted,
    /// Begun; `left` reads may follow.
    Reading { left: u32 },
    /// `ReadComplete` was given out: nothing is read until the next round.
    ReadsDone,
    /// Nothing more is to be said in this round.
    Finished,
}

pub(super) struct DatagramEndpoint {
    socket: DatagramSocket,
    /// The kernel says once what is ready: then that is kept until a call shows that it is over.
    is_edge: bool,
    /// Reads are on.
    plan: Option<PackedReadPlan>,
    round: DatagramRound,
    /// `Wrote` or `Failed` is owed.
    write_pending: bool,
    /// The kernel says that there is room, and nothing was sent since.
    is_room_reported: bool,
    /// Nothing is to be had from it any more.
    is_broken: bool,
    /// What the kernel has said, as far as nothing has shown that it is over.
    ready: ReadyFlags,
    /// `ReceiveFailed`, or `Failed` if it is broken, is owed, after everything else of this round.
    failure: Option<io::Error>,
}

impl DatagramEndpoint {
    /// Takes a socket in, edge-triggered if the selector can be.
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

    /// What it is to be watched for; `None`: it is not to be in the set.
    pub(super) fn wanted_events(&self) -> Option<WatchedEvents> {
        let mut wanted = Interest::NONE;
        if self.plan.is_some() {
            wanted = wanted | Interest::READABLE;
        }
        if self.write_pending {
            wanted = wanted | Interest::WRITABLE;
        }
        // An error is told whatever is asked for: while nobody reads it waits for the next read or write.
        let watch = WatchedEvents { interest: wanted, read_end: false, edge: self.is_edge };
        (!self.is_broken && !wanted.is_empty()).then_some(watch)
    }

    /// Notes what the kernel says; returns whether the endpoint is to have a turn.
    pub(super) fn on_ready(&mut self, ready: ReadyFlags) -> bool {
        self.ready |= ready;
        if !self.write_pending {
            self.ready.take(ReadyFlags::WRITE);
        }
        !self.is_edge || self.has_work()
    }

    /// True if a turn would find something to do, by what is known now. An error waits for whoever reads or sends.
    pub(super) fn has_work(&self) -> bool {
        let (reads, ready) = (self.plan.is_some(), self.ready);
        let is_awaited = (reads || self.write_pending)
            && ready.contains_any(ReadyFlags::ERROR | ReadyFlags::INVALID)
            || reads && (ready.contains_any(READ_EVENTS) || !self.socket.received.is_empty())
            || self.write_pending && ready.contains_any(ReadyFlags::WRITE);
        is_awaited && !self.is_broken || self.failure.is_some()
    }

    pub(super) fn break_with(&mut self, error: io::Error) {
        (self.is_broken, self.failure) = (true, Some(error));
    }

    /// True while its turn is not over: there may be something to say.
    pub(super) fn is_visit_open(&self) -> bool {
        let is_over = self.is_broken || self.round == DatagramRound::Finished;
        let is_idle = self.round == DatagramRound::NotStarted && self.ready == ReadyFlags::NONE;
        !is_over && !is_idle || self.failure.is_some()
    }

    /// Ends its turn; returns whether it is to have another one, in the next round.
    pub(super) fn end_visit(&mut self) -> bool {
        self.round = DatagramRound::NotStarted;
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
        let is_open = matches!(self.round, DatagramRound::Reading { .. });
        self.round = DatagramRound::Finished;
        is_open.then_some(IoEvent::ReadComplete(token))
    }

    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        self.plan = plan.map(PackedReadPlan::of);
    }

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

    pub(super) fn send_ancillary(&mut self, message: &AncillaryMessage) -> io::Result<Submit> {
        self.check_sendable()?;
        let to = message.peer.as_ref();
        let sent = ancillary::send(&self.socket.socket, message, to);
        self.on_submitted(sent.map(|_| 1), to)
    }

    fn check_sendable(&self) -> io::Result<()> {
        if self.write_pending || self.is_broken {
            let what = "a socket that is broken, or whose last write is pending, cannot be sent by";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        Ok(())
    }

    /// What came of a send to this address, or to the peer it is connected to.
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
            // The room that is missing is not this socket's: a receiver is full, and of one that this is not
            // connected to the kernel does not tell when it is no longer. It would say at once that there is
            // room, for ever.
            (Err(_), Some(to)) if self.is_room_reported && !self.can_wait_for_room(to) => {
                let what = format!("{to} has no room: connect to it to wait for some");
                Err(io::Error::new(ErrorKind::WouldBlock, what))
            }
            (Err(_), _) => {
                self.write_pending = true;
                self.ready.take(ReadyFlags::WRITE);
                Ok(Submit::Full)
            }
        }
    }

    /// Whether the kernel tells when there is room at this address. Of the peer it is connected to; but among
    /// Unix sockets others may be sent to others.
    fn can_wait_for_room(&self, to: &Address) -> bool {
        let socket = &self.socket.socket;
        socket.has_peer() && !matches!(to, Address::Unix(_))
    }

    /// The next event of this round, if there is one.
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

    fn read(&mut self, token: Token, buffer: &mut DatagramBuffer) -> Option<IoEvent> {
        if self.round == DatagramRound::NotStarted {
            let told = self.ready.contains_any(READ_EVENTS) || !self.socket.received.is_empty();
            let plan = self.plan.filter(|_| told)?;
            self.round = DatagramRound::Reading { left: plan.max_reads };
        }
        let DatagramRound::Reading { left } = self.round else { return None };
        // What was outcome from the kernel, and not given out before reads went off, waits like the rest.
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
        // An error that no read has found is for the end of the round: reads have had their turn.
        let is_last = !self.ready.contains_any(ReadyFlags::ERROR | ReadyFlags::INVALID)
            && self.failure.is_none();
        self.round = if is_last { DatagramRound::Finished } else { DatagramRound::ReadsDone };
        Some(IoEvent::ReadComplete(token))
    }

    /// Takes what there is from the kernel, at max so many. After fewer it is not asked again.
    fn receive(&mut self, size: usize, left: usize, buffer: &mut DatagramBuffer) {
        let DatagramSocket { socket, received } = &mut self.socket;
        let (room, max) = (buffer.room(size), left.min(datagrams::BATCH));
        let outcome = datagrams::receive(socket.as_fd(), room, size, max, |bytes, whole, from| {
            let from = from.and_then(from_kernel).filter(is_named);
            let datagram = Datagram::received(from, Bytes::copy_from_slice(bytes), whole);
            received.push_back(Box::new(datagram));
        });
        match outcome {
            Ok(n) if n == max => {}
            // An error or an end that was told as well is found by the next read, behind what there was.
            Ok(_) => _ = self.ready.take(ReadyFlags::READ),
            Err(error) => self.on_receive_error(error),
        }
    }

    /// Takes one from the kernel, and gives it back if it is more than bytes.
    fn receive_ancillary(
        &mut self,
        size: usize,
        buffer: &mut DatagramBuffer,
    ) -> Option<AncillaryMessage> {
        let DatagramSocket { socket, received } = &mut self.socket;
        let room = &mut buffer.room(size)[..size];
        match ancillary::receive(socket, room, true) {
            Ok(AncillaryRead { whole, is_plain, message }) => {
                let bytes = Bytes::copy_from_slice(&room[..whole.min(size)]);
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
            // Somebody has shut it down: the kernel would say so for ever.
            ErrorKind::WouldBlock
                if self.ready.contains_any(ReadyFlags::READ_END | ReadyFlags::HANG_UP) =>
            {
                self.break_with(ErrorKind::UnexpectedEof.into());
            }
            ErrorKind::WouldBlock => _ = self.ready.take(ReadyFlags::READ),
            ErrorKind::Interrupted => {}
            _ => {
                self.ready.take(ReadyFlags::ERROR); // That was it; what there is others is for the next round.
                self.fail(error);
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        let fatal = [Errno::BADF, Errno::NOTSOCK, Errno::INVAL, Errno::FAULT];
        self.is_broken |= Errno::from_io_error(&error).is_some_and(|errno| fatal.contains(&errno));
        self.failure = Some(error);
    }

    /// Ends the round: looks at what no step has dealt with.
    fn finish_round(&mut self) {
        let ready = self.ready;
        self.ready.take(ReadyFlags::ERROR | ReadyFlags::INVALID);
        self.round = DatagramRound::Finished;
        if ready.contains_any(ReadyFlags::INVALID) {
            self.break_with(Errno::BADF.into());
        } else if ready.contains_any(ReadyFlags::ERROR) && self.failure.is_none() {
            match self.socket.socket.take_error() {
                Ok(Some(error)) | Err(error) => self.fail(error),
                // A send has outcome it, or there are notes in the error queue (IP_RECVERR, timestamps).
                Ok(None) => self.socket.socket.drain_error_queue(),
            }
        }
    }
}
