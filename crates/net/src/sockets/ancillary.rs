//! Descriptors on their way from one process to another (C13).

use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use waterwheel_channel::driver::Io;
use waterwheel_channel::{Address, Parcel};

use crate::address::{from_kernel, in_kernel, is_named};
use crate::sockets::socket::Socket;
use crate::sys::ancillary::{self, MAX_PASSED};

/// A descriptor that is to be passed in a [`Parcel`]: the peer gets a duplicate, this one is closed when it
/// was sent. At most 253 go into one parcel.
///
/// ```
/// use std::fs::File;
/// use waterwheel_channel::Parcel;
/// use waterwheel_net::{descriptor, passed};
///
/// # fn main() -> std::io::Result<()> {
/// let mut parcel = Parcel::new("a file", vec![passed(File::open("Cargo.toml")?)]);
/// // The other end:
/// let file = descriptor(parcel.passed.remove(0)).map(File::from).expect("it is one");
/// assert!(file.metadata()?.is_file());
/// # Ok(())
/// # }
/// ```
pub fn passed(descriptor: impl Into<OwnedFd>) -> Io {
    Io::new(descriptor.into())
}

/// The descriptor that was passed.
///
/// # Errors
/// What was given, if it is something else.
pub fn descriptor(passed: Io) -> Result<OwnedFd, Io> {
    passed.downcast()
}

/// What was received into some room.
pub(crate) struct Received {
    /// How long it was when it was sent: there may have been less room.
    pub(crate) whole: usize,
    /// It was bytes, and nothing else.
    pub(crate) is_plain: bool,
    /// Everything but the bytes.
    pub(crate) parcel: Parcel,
}

/// Receives the next part of a stream into `room`, or a datagram.
pub(crate) fn receive(socket: &Socket, room: &mut [u8], datagram: bool) -> io::Result<Received> {
    let received = ancillary::receive(socket.as_fd(), room, datagram)?;
    let wanted = socket.takes_passed();
    let lost = received.lost && wanted;
    let passed: Vec<Io> = received.passed.into_iter().filter(|_| wanted).map(passed).collect();
    let is_plain = passed.is_empty() && received.credentials.is_none() && !lost;
    // What comes on a stream comes from its peer.
    let from = received.from.filter(|_| datagram).and_then(from_kernel).filter(is_named);
    let parcel = Parcel {
        passed,
        peer: from,
        credentials: received.credentials,
        truncated: lost || received.whole > room.len(),
        ..Parcel::default()
    };
    Ok(Received { whole: received.whole, is_plain, parcel })
}

/// How many reads of its round a parcel counts for: one for each descriptor, so that a round brings few of them. They
/// are held until the handlers have seen to them.
pub(crate) fn reads_for(parcel: &Parcel) -> u32 {
    u32::try_from(parcel.passed.len().max(1)).unwrap_or(u32::MAX)
}

/// Sends a parcel, to this peer or to the one that the socket is connected to; how many bytes of it.
pub(crate) fn send(socket: &Socket, parcel: &Parcel, to: Option<&Address>) -> io::Result<usize> {
    let mut passed = Vec::with_capacity(parcel.passed.len());
    for io in &parcel.passed {
        let descriptor = io.get::<OwnedFd>().ok_or_else(|| {
            refused(format!("a {} cannot be passed: it is no descriptor", io.kind()))
        })?;
        passed.push(descriptor.as_fd());
    }
    if passed.len() > MAX_PASSED {
        let count = passed.len();
        let what = format!("{count} descriptors are too many: {MAX_PASSED} can be passed");
        return Err(refused(what));
    }
    let to = to.map(in_kernel).transpose()?;
    let bytes = [IoSlice::new(&parcel.bytes)];
    let sent = retry_on_intr(|| {
        let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_PASSED))];
        let mut control = control(&mut room, &passed);
        match &to {
            None => rustix::net::sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL),
            Some(to) => {
                rustix::net::sendmsg_addr(socket, to, &bytes, &mut control, SendFlags::NOSIGNAL)
            }
        }
    });
    sent.map_err(|error| match error {
        Errno::TOOMANYREFS => {
            refused("this user has too many descriptors under way that nobody has taken".into())
        }
        other => other.into(),
    })
}

fn control<'a>(
    room: &'a mut [MaybeUninit<u8>],
    passed: &'a [BorrowedFd<'a>],
) -> SendAncillaryBuffer<'a, 'a, 'a> {
    let mut control = SendAncillaryBuffer::new(room);
    if !passed.is_empty() {
        // There is room for as many as there may be.
        control.push(SendAncillaryMessage::ScmRights(passed));
    }
    control
}

fn refused(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}

/// Whether a parcel was found to be wrong, and not the socket: here, or by the kernel, which passes no ring of
/// its own.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}
