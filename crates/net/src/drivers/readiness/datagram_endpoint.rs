//! One socket for datagrams: what is watched for it, and which events its readiness turns into.
//!
//! Datagrams are taken from the kernel several at a time, and given out one by one:
//!
//! ```text
//!   kernel ── one call, at most 16 ──► inbox ── copied out, each as long as it is ──► received ──► Datagram
//! ```
//!
//! The inbox has room for the largest datagrams there may be, belongs to the driver, and is used again by
//! the next call: what is kept of a datagram is as long as the datagram.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;
use rustix::io::Errno;
use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Submit};
use waterwheel_channel::{Address, Datagram, Parcel, Token};

use super::read_plan::{PackedReadPlan, READ_WILL_TELL, max_steps};
use crate::address::{from_kernel, is_named};
use crate::drivers::selector::{Ready, Watch};
use crate::sockets::ancillary::{self, Received};
use crate::sockets::datagram_socket::DatagramSocket;
use crate::sys::datagrams::{self, Sent};

/// Where the kernel puts what it is asked for. Nothing, until the first datagram.
#[derive(Default)]
pub(super) struct Inbox {
    room: Vec<u8>,
}

impl Inbox {
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
enum Round {
    /// Not begun.
    Waiting,
    /// Begun; `left` reads may follow.
    Reading { left: u32 },
    /// `ReadComplete` was given out: nothing is read until the next round.
    Over,
    /// Nothing more is to be said in this round.
    Settled,
}

pub(super) struct DatagramEndpoint {
    socket: DatagramSocket,
    /// The kernel says once what is ready: then that is kept until a call shows that it is over.
    edge: bool,
    /// Reads are on.
    plan: Option<PackedReadPlan>,
    round: Round,
    /// `Wrote` or `Failed` is owed.
    write_pending: bool,
    /// The kernel says that there is room, and nothing was sent since.
    room_told: bool,
    /// Nothing is to be had from it any more.
    broken: bool,
    /// What the kernel has said, as far as nothing has shown that it is over.
    ready: Ready,
    /// `ReceiveFailed`, or `Failed` if it is broken, is owed, after everything else of this round.
    failure: Option<io::Error>,
}

impl DatagramEndpoint {
    /// Takes a socket in, edge-triggered if the selector can be.
    pub(super) fn new(socket: DatagramSocket, edge: bool) -> Self {
        let (plan, round, ready, failure) = (None, Round::Waiting, Ready::NONE, None);
        let (write_pending, room_told, broken) = (false, false, false);
        Self { socket, edge, plan, round, write_pending, room_told, broken, ready, failure }
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
    pub(super) fn wanted(&self) -> Option<Watch> {
        let mut wanted = Interest::NONE;
        if self.plan.is_some() {
            wanted = wanted | Interest::READABLE;
        }
        if self.write_pending {
            wanted = wanted | Interest::WRITABLE;
        }
        // An error is told whatever is asked for: while nobody reads it waits for the next read or write.
        let watch = Watch { interest: wanted, read_end: false, edge: self.edge };
        (!self.broken && !wanted.is_empty()).then_some(watch)
    }

    /// Notes what the kernel says; returns whether the endpoint is to have a turn.
    pub(super) fn on_ready(&mut self, ready: Ready) -> bool {
        self.ready |= ready;
        if !self.write_pending {
            self.ready.take(Ready::WRITE);
        }
        !self.edge || self.has_work()
    }

    /// True if a turn would find something to do, by what is known now. An error waits for whoever reads or sends.
    pub(super) fn has_work(&self) -> bool {
        let (reads, ready) = (self.plan.is_some(), self.ready);
        let is_awaited = (reads || self.write_pending) && ready.any(Ready::ERROR | Ready::INVALID)
            || reads && (ready.any(READ_WILL_TELL) || !self.socket.received.is_empty())
            || self.write_pending && ready.any(Ready::WRITE);
        is_awaited && !self.broken || self.failure.is_some()
    }

    pub(super) fn on_refused(&mut self, error: io::Error) {
        (self.broken, self.failure) = (true, Some(error));
    }

    /// True while its turn is not over: there may be something to say.
    pub(super) fn is_in_turn(&self) -> bool {
        let is_over = self.broken || self.round == Round::Settled;
        let is_idle = self.round == Round::Waiting && self.ready == Ready::NONE;
        !is_over && !is_idle || self.failure.is_some()
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

    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        self.plan = plan.map(PackedReadPlan::of);
    }

    pub(super) fn send(
        &mut self,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> io::Result<Submit> {
        self.may_be_sent_by()?;
        let mut first = None;
        let mut batch = batch.inspect(|datagram| _ = first.get_or_insert(datagram.peer()));
        let Sent { result, earlier } = datagrams::send(self.socket.as_fd(), &mut batch);
        if earlier.is_some() {
            self.failure = earlier;
        }
        self.submitted(result, first.flatten())
    }

    pub(super) fn send_parcel(&mut self, parcel: &Parcel) -> io::Result<Submit> {
        self.may_be_sent_by()?;
        let to = parcel.peer.as_ref();
        let sent = ancillary::send(&self.socket.socket, parcel, to);
        self.submitted(sent.map(|_| 1), to)
    }

    fn may_be_sent_by(&self) -> io::Result<()> {
        if self.write_pending || self.broken {
            let what = "a socket that is broken, or whose last write is pending, cannot be sent by";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        Ok(())
    }

    /// What came of a send to this address, or to the peer it is connected to.
    fn submitted(&mut self, sent: io::Result<usize>, to: Option<&Address>) -> io::Result<Submit> {
        match (sent, to) {
            (Ok(n), _) => {
                self.room_told = false;
                Ok(Submit::Done(n))
            }
            (Err(error), _) if error.kind() != ErrorKind::WouldBlock => Err(error),
            // The room that is missing is not this socket's: a receiver is full, and of one that this is not
            // connected to the kernel does not tell when it is no longer. It would say at once that there is
            // room, for ever.
            (Err(_), Some(to)) if self.room_told && !self.waits_for(to) => {
                let what = format!("{to} has no room: connect to it to wait for some");
                Err(io::Error::new(ErrorKind::WouldBlock, what))
            }
            (Err(_), _) => {
                self.write_pending = true;
                self.ready.take(Ready::WRITE);
                Ok(Submit::Full)
            }
        }
    }

    /// Whether the kernel tells when there is room at this address. Of the peer it is connected to; but among
    /// Unix sockets others may be sent to besides.
    fn waits_for(&self, to: &Address) -> bool {
        let socket = &self.socket.socket;
        socket.has_peer() && !matches!(to, Address::Unix(_))
    }

    /// The next event of this round, if there is one.
    pub(super) fn next(&mut self, token: Token, inbox: &mut Inbox) -> Option<IoEvent> {
        if self.ready.take(Ready::WRITE) && std::mem::take(&mut self.write_pending) {
            self.room_told = true;
            return Some(IoEvent::Wrote(token, 0));
        }
        if !self.broken
            && let Some(event) = self.read(token, inbox)
        {
            return Some(event);
        }
        self.settle();
        let failure = self.failure.take();
        failure.map(|error| match self.broken {
            true => IoEvent::Failed(token, error),
            false => IoEvent::ReceiveFailed(token, error),
        })
    }

    fn read(&mut self, token: Token, inbox: &mut Inbox) -> Option<IoEvent> {
        if self.round == Round::Waiting {
            let told = self.ready.any(READ_WILL_TELL) || !self.socket.received.is_empty();
            let plan = self.plan.filter(|_| told)?;
            self.round = Round::Reading { left: plan.max_reads };
        }
        let Round::Reading { left } = self.round else { return None };
        // What was taken from the kernel, and not given out before reads went off, waits like the rest.
        if let (Some(plan), 1..) = (self.plan, left) {
            if self.socket.received.is_empty() && self.ready.any(READ_WILL_TELL) {
                if !self.socket.socket.takes_parcels() {
                    self.receive(plan.size(), left as usize, inbox);
                } else if let Some(parcel) = self.receive_parcel(plan.size(), inbox) {
                    let left = left.saturating_sub(ancillary::reads_for(&parcel));
                    self.round = Round::Reading { left };
                    return Some(IoEvent::Parcel(token, Box::new(parcel)));
                }
            }
            if let Some(datagram) = self.socket.received.pop_front() {
                self.round = Round::Reading { left: left - 1 };
                return Some(IoEvent::Datagram(token, datagram));
            }
        }
        // An error that no read has found is for the end of the round: reads have had their turn.
        let is_last = !self.ready.any(Ready::ERROR | Ready::INVALID) && self.failure.is_none();
        self.round = if is_last { Round::Settled } else { Round::Over };
        Some(IoEvent::ReadComplete(token))
    }

    /// Takes what there is from the kernel, at most so many. After fewer it is not asked again.
    fn receive(&mut self, size: usize, left: usize, inbox: &mut Inbox) {
        let DatagramSocket { socket, received } = &mut self.socket;
        let (room, most) = (inbox.room(size), left.min(datagrams::BATCH));
        let taken = datagrams::receive(socket.as_fd(), room, size, most, |bytes, whole, from| {
            let from = from.and_then(from_kernel).filter(is_named);
            let datagram = Datagram::received(from, Bytes::copy_from_slice(bytes), whole);
            received.push_back(Box::new(datagram));
        });
        match taken {
            Ok(n) if n == most => {}
            // An error or an end that was told as well is found by the next read, behind what there was.
            Ok(_) => _ = self.ready.take(Ready::READ),
            Err(error) => self.on_receive_error(error),
        }
    }

    /// Takes one from the kernel, and gives it back if it is more than bytes.
    fn receive_parcel(&mut self, size: usize, inbox: &mut Inbox) -> Option<Parcel> {
        let DatagramSocket { socket, received } = &mut self.socket;
        let room = &mut inbox.room(size)[..size];
        match ancillary::receive(socket, room, true) {
            Ok(Received { whole, is_plain, parcel }) => {
                let bytes = Bytes::copy_from_slice(&room[..whole.min(size)]);
                if !is_plain {
                    return Some(Parcel { bytes, ..parcel });
                }
                received.push_back(Box::new(Datagram::received(parcel.peer, bytes, whole)));
            }
            Err(error) => self.on_receive_error(error),
        }
        None
    }

    fn on_receive_error(&mut self, error: io::Error) {
        match error.kind() {
            // Somebody has shut it down: the kernel would say so for ever.
            ErrorKind::WouldBlock if self.ready.any(Ready::READ_END | Ready::HANG_UP) => {
                self.on_refused(ErrorKind::UnexpectedEof.into());
            }
            ErrorKind::WouldBlock => _ = self.ready.take(Ready::READ),
            ErrorKind::Interrupted => {}
            _ => {
                self.ready.take(Ready::ERROR); // That was it; what there is besides is for the next round.
                self.fail(error);
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        let fatal = [Errno::BADF, Errno::NOTSOCK, Errno::INVAL, Errno::FAULT];
        self.broken |= Errno::from_io_error(&error).is_some_and(|errno| fatal.contains(&errno));
        self.failure = Some(error);
    }

    /// Ends the round: looks at what no step has dealt with.
    fn settle(&mut self) {
        let ready = self.ready;
        self.ready.take(Ready::ERROR | Ready::INVALID);
        self.round = Round::Settled;
        if ready.any(Ready::INVALID) {
            self.on_refused(Errno::BADF.into());
        } else if ready.any(Ready::ERROR) && self.failure.is_none() {
            match self.socket.socket.take_error() {
                Ok(Some(error)) | Err(error) => self.fail(error),
                // A send has taken it, or there are notes in the error queue (IP_RECVERR, timestamps).
                Ok(None) => self.socket.socket.drain_error_queue(),
            }
        }
    }
}
