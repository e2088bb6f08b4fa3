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

use crate::address::{from_kernel, is_named};
use crate::datagram_socket::DatagramSocket;
use crate::parcels::{self, Received};
use crate::selector::Ready;
use crate::sys::datagrams;

/// A read finds something: a datagram, or that there will be no more.
const DATA: Ready = Ready::READ.or(Ready::READ_END).or(Ready::HANG_UP);

/// A read finds that, or an error.
const READ_WILL_TELL: Ready = DATA.or(Ready::ERROR);

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

pub(super) struct DatagramEndpoint {
    socket: DatagramSocket,
    /// Reads are on.
    plan: Option<ReadPlan>,
    /// So many reads of this round are left; `None`: it has not begun.
    left: Option<usize>,
    /// `Wrote` or `Failed` is owed.
    write_pending: bool,
    /// The last write was told that there is room.
    told_of_room: bool,
    /// Nothing is to be had from it any more.
    broken: bool,
    /// What the kernel has said in this round and is not dealt with.
    ready: Ready,
    /// `ReceiveFailed`, or `Failed` if it is broken, is owed, after everything else of this round.
    failure: Option<io::Error>,
}

impl DatagramEndpoint {
    pub(super) fn new(socket: DatagramSocket) -> Self {
        let (plan, left, ready, failure) = (None, None, Ready::NONE, None);
        Self {
            socket,
            plan,
            left,
            write_pending: false,
            told_of_room: false,
            broken: false,
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
    pub(super) fn wanted(&self) -> Option<Interest> {
        let mut wanted = Interest::NONE;
        if self.plan.is_some() {
            wanted = wanted | Interest::READABLE;
        }
        if self.write_pending {
            wanted = wanted | Interest::WRITABLE;
        }
        // An error is told whatever is asked for: while nobody reads it waits for the next read or write.
        (!self.broken && !wanted.is_empty()).then_some(wanted)
    }

    pub(super) fn on_ready(&mut self, ready: Ready) {
        self.ready |= ready;
    }

    pub(super) fn on_refused(&mut self, error: io::Error) {
        (self.broken, self.failure) = (true, Some(error));
    }

    /// Whether its round is not over: there may be something to say.
    pub(super) fn is_ready(&self) -> bool {
        let left_over = self.plan.is_some() && !self.socket.received.is_empty();
        self.ready != Ready::NONE || self.left.is_some() || left_over || self.failure.is_some()
    }

    pub(super) fn set_read(&mut self, plan: Option<ReadPlan>) {
        // A read of nothing would lose what is read.
        let size = |plan: ReadPlan| plan.size.clamp(1, ReadPlan::MAX_SIZE);
        self.plan = plan.map(|plan| ReadPlan { size: size(plan), ..plan });
    }

    pub(super) fn send(
        &mut self,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> io::Result<Submit> {
        let mut first = None;
        let mut batch = batch.inspect(|datagram| {
            first.get_or_insert(datagram.peer());
        });
        let sent =
            self.may_be_sent_by().and_then(|()| datagrams::send(self.socket.as_fd(), &mut batch));
        self.submitted(sent, first.flatten())
    }

    pub(super) fn send_parcel(&mut self, parcel: &Parcel) -> io::Result<Submit> {
        let to = parcel.peer.as_ref();
        let sent =
            self.may_be_sent_by().and_then(|()| parcels::send(&self.socket.socket, parcel, to));
        self.submitted(sent.map(|_| 1), to)
    }

    fn may_be_sent_by(&self) -> io::Result<()> {
        if self.write_pending || self.broken {
            let what = "a socket that is broken, or whose last write is pending, cannot be sent by";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        Ok(())
    }

    /// What came of a send to this peer, or to the one it is connected to.
    fn submitted(&mut self, sent: io::Result<usize>, to: Option<&Address>) -> io::Result<Submit> {
        let told_of_room = std::mem::take(&mut self.told_of_room);
        match (sent, to) {
            (Ok(n), _) => Ok(Submit::Done(n)),
            // The room that it was told of is this socket's, not its peer's: it would be told for ever.
            (Err(error), Some(to @ Address::Unix(_)))
                if told_of_room && error.kind() == ErrorKind::WouldBlock =>
            {
                let what = format!("{to} has no room: connect to it to wait for some");
                Err(io::Error::new(ErrorKind::WouldBlock, what))
            }
            (Err(error), _) if error.kind() == ErrorKind::WouldBlock => {
                self.write_pending = true;
                Ok(Submit::Full)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// The next event of this round, if there is one.
    pub(super) fn next(&mut self, token: Token, inbox: &mut Inbox) -> Option<IoEvent> {
        if self.ready.take(Ready::WRITE) && std::mem::take(&mut self.write_pending) {
            self.told_of_room = true;
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
        if self.left.is_none() {
            let told = self.ready.any(READ_WILL_TELL) || !self.socket.received.is_empty();
            let plan = self.plan.filter(|_| told)?;
            self.left = Some((plan.max_reads as usize).max(1));
        }
        if self.socket.received.is_empty() {
            if !self.socket.socket.takes_parcels() {
                self.receive(inbox);
            } else if let Some(parcel) = self.receive_parcel(inbox) {
                return Some(IoEvent::Parcel(token, Box::new(parcel)));
            }
        }
        if let Some(datagram) = self.socket.received.pop_front() {
            return Some(IoEvent::Datagram(token, datagram));
        }
        self.left = None;
        self.ready.take(DATA);
        Some(IoEvent::ReadComplete(token))
    }

    /// Takes what there is from the kernel, as far as the plan goes.
    fn receive(&mut self, inbox: &mut Inbox) {
        let (Some(plan), Some(left)) = (self.plan, self.left) else { return };
        if left == 0 || !self.ready.any(READ_WILL_TELL) {
            return;
        }
        let DatagramSocket { socket, received } = &mut self.socket;
        let (room, most) = (inbox.room(plan.size), left.min(datagrams::BATCH));
        let shut_down = self.ready.any(Ready::READ_END | Ready::HANG_UP);
        let mut ended = false;
        let taken =
            datagrams::receive(socket.as_fd(), room, plan.size, most, |bytes, whole, from| {
                let from = from.and_then(from_kernel).filter(is_named);
                if shut_down && whole == 0 && from.is_none() {
                    ended = true;
                    return;
                }
                let datagram = Datagram::received(from, Bytes::copy_from_slice(bytes), whole);
                received.push_back(Box::new(datagram));
            });
        self.left = Some(match taken {
            Ok(n) if n == most && !ended => left - n,
            _ => 0, // There are no more, or none for now.
        });
        match taken {
            // Somebody has shut it down: it would say so for ever.
            Ok(_) if ended => self.on_refused(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                self.ready.take(Ready::ERROR); // That was it.
                self.fail(error);
            }
        }
    }

    /// Takes one from the kernel, and gives it back if it is more than bytes.
    fn receive_parcel(&mut self, inbox: &mut Inbox) -> Option<Parcel> {
        let (Some(plan), Some(left)) = (self.plan, self.left) else { return None };
        if left == 0 || !self.ready.any(READ_WILL_TELL) {
            return None;
        }
        self.left = Some(left - 1);
        let DatagramSocket { socket, received } = &mut self.socket;
        let room = &mut inbox.room(plan.size)[..plan.size];
        match parcels::receive(socket, room, true) {
            Ok(Received { whole: 0, parcel, .. })
                if parcel.peer.is_none() && self.ready.any(Ready::READ_END | Ready::HANG_UP) =>
            {
                self.on_refused(ErrorKind::UnexpectedEof.into());
            }
            Ok(Received { whole, is_plain, parcel }) => {
                let bytes = Bytes::copy_from_slice(&room[..whole.min(plan.size)]);
                if !is_plain {
                    return Some(Parcel { bytes, ..parcel });
                }
                received.push_back(Box::new(Datagram::received(parcel.peer, bytes, whole)));
            }
            Err(error) if is_passing(&error) => self.left = Some(0),
            Err(error) => {
                self.left = Some(0);
                self.ready.take(Ready::ERROR); // That was it.
                self.fail(error);
            }
        }
        None
    }

    fn fail(&mut self, error: io::Error) {
        let fatal = [Errno::BADF, Errno::NOTSOCK, Errno::INVAL, Errno::FAULT];
        self.broken |= Errno::from_io_error(&error).is_some_and(|errno| fatal.contains(&errno));
        self.failure = Some(error);
    }

    /// Ends the round: looks at what no step has dealt with.
    fn settle(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        if ready.any(Ready::INVALID) {
            self.on_refused(Errno::BADF.into());
        } else if ready.any(Ready::ERROR) && self.failure.is_none() {
            match self.socket.socket.take_error() {
                Ok(Some(error)) | Err(error) => self.fail(error),
                Ok(None) => self.socket.socket.drain_error_queue(),
            }
        }
    }
}

/// Whether there is nothing to be had right now, and that is all.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
