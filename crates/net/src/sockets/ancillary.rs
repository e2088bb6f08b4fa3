//! Descriptors on their way from one process to another (C13).

use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use waterwheel_channel::driver::Io;
use waterwheel_channel::{Address, AncillaryMessage};

use crate::address::{from_kernel, is_named, to_kernel};
use crate::sockets::socket::Socket;
use crate::sys::ancillary::{self, MAX_PASSED_FDS};

/// A descriptor that is to be passed in a [`AncillaryMessage`]: the peer gets a duplicate, this one is closed when it
/// was sent. At most 253 go into one ancillary message.
///
/// ```
/// use std::fs::File;
/// use waterwheel_channel::AncillaryMessage;
/// use waterwheel_net::{unwrap_descriptor, wrap_descriptor};
///
/// # fn main() -> std::io::Result<()> {
/// let mut message = AncillaryMessage::new("a file", vec![wrap_descriptor(File::open("Cargo.toml")?)]);
/// // The other end:
/// let file = unwrap_descriptor(message.passed.remove(0)).map(File::from).expect("it is one");
/// assert!(file.metadata()?.is_file());
/// # Ok(())
/// # }
/// ```
pub fn wrap_descriptor(descriptor: impl Into<OwnedFd>) -> Io {
    Io::new(descriptor.into())
}

/// The descriptor that was passed.
///
/// # Errors
/// What was given, if it is something else.
pub fn unwrap_descriptor(passed: Io) -> Result<OwnedFd, Io> {
    passed.downcast()
}

/// What was received into some buffer.
pub(crate) struct AncillaryRead {
    /// How long it was when it was sent: there may have been less buffer.
    pub(crate) whole: usize,
    /// It was bytes, and nothing else.
    pub(crate) is_plain: bool,
    /// Everything but the bytes.
    pub(crate) message: AncillaryMessage,
}

/// Receives the next part of a stream into `buffer`, or a datagram.
pub(crate) fn receive(
    socket: &Socket,
    buffer: &mut [u8],
    datagram: bool,
) -> io::Result<AncillaryRead> {
    let received = ancillary::receive(socket.as_fd(), buffer, datagram)?;
    let wanted = socket.receives_descriptors();
    let is_truncated = received.is_truncated && wanted;
    let passed: Vec<Io> =
        received.passed.into_iter().filter(|_| wanted).map(wrap_descriptor).collect();
    let is_plain = passed.is_empty() && received.credentials.is_none() && !is_truncated;
    // What comes on a stream comes from its peer.
    let from = received.from.filter(|_| datagram).and_then(from_kernel).filter(is_named);
    let message = AncillaryMessage {
        passed,
        peer: from,
        credentials: received.credentials,
        truncated: is_truncated || received.whole > buffer.len(),
        ..AncillaryMessage::default()
    };
    Ok(AncillaryRead { whole: received.whole, is_plain, message })
}

/// How many reads of its round an ancillary message counts for: one for each descriptor, so that a round brings few of them. They
/// are held until the handlers have seen to them.
pub(crate) fn reads_for(message: &AncillaryMessage) -> u32 {
    u32::try_from(message.passed.len().max(1)).unwrap_or(u32::MAX)
}

/// Sends an ancillary message, to this peer or to the one that the socket is connected to; how many bytes of it.
pub(crate) fn send(
    socket: &Socket,
    message: &AncillaryMessage,
    to: Option<&Address>,
) -> io::Result<usize> {
    let mut passed = Vec::with_capacity(message.passed.len());
    for io in &message.passed {
        let descriptor = io.get::<OwnedFd>().ok_or_else(|| {
            invalid(format!("a {} cannot be passed: it is no descriptor", io.kind()))
        })?;
        passed.push(descriptor.as_fd());
    }
    if passed.len() > MAX_PASSED_FDS {
        let count = passed.len();
        let what = format!("{count} descriptors are too many: {MAX_PASSED_FDS} can be passed");
        return Err(invalid(what));
    }
    let to = to.map(to_kernel).transpose()?;
    let bytes = [IoSlice::new(&message.bytes)];
    let sent = retry_on_intr(|| {
        let mut buffer = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_PASSED_FDS))];
        let mut control = control(&mut buffer, &passed);
        match &to {
            None => rustix::net::sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL),
            Some(to) => {
                rustix::net::sendmsg_addr(socket, to, &bytes, &mut control, SendFlags::NOSIGNAL)
            }
        }
    });
    sent.map_err(|error| match error {
        Errno::TOOMANYREFS => {
            invalid("this user has too many descriptors under way that nobody has taken".into())
        }
        other => other.into(),
    })
}

fn control<'a>(
    buffer: &'a mut [MaybeUninit<u8>],
    passed: &'a [BorrowedFd<'a>],
) -> SendAncillaryBuffer<'a, 'a, 'a> {
    let mut control = SendAncillaryBuffer::new(buffer);
    if !passed.is_empty() {
        // There is buffer for as many as there may be.
        control.push(SendAncillaryMessage::ScmRights(passed));
    }
    control
}

fn invalid(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}

/// Whether an ancillary message was found to be wrong, and not the socket: here, or by the kernel, which passes no ring of
/// its own.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}
