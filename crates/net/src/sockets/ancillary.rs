//! File descriptor passing and credentials: ancillary data of Unix sockets (SCM_RIGHTS, SCM_CREDENTIALS; C13).

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

/// Wraps a descriptor to be passed in an [`AncillaryMessage`] (SCM_RIGHTS): the peer gets a duplicate. The descriptor
/// is closed after the message was sent. One message carries at most 253 descriptors.
///
/// ```
/// use std::fs::File;
/// use waterwheel_channel::AncillaryMessage;
/// use waterwheel_net::{unwrap_descriptor, wrap_descriptor};
///
/// # fn main() -> std::io::Result<()> {
/// let mut message = AncillaryMessage::new("a file", vec![wrap_descriptor(File::open("Cargo.toml")?)]);
/// // The other end:
/// let file = unwrap_descriptor(message.passed.remove(0)).map(File::from).expect("a file descriptor");
/// assert!(file.metadata()?.is_file());
/// # Ok(())
/// # }
/// ```
pub fn wrap_descriptor(descriptor: impl Into<OwnedFd>) -> Io {
    Io::new(descriptor.into())
}

/// Returns the descriptor that was passed.
///
/// # Errors
/// Returns the value unchanged if it is not a descriptor.
pub fn unwrap_descriptor(passed: Io) -> Result<OwnedFd, Io> {
    passed.downcast()
}

/// A received message.
pub(crate) struct AncillaryRead {
    /// The length of the message as sent: larger than the buffer if the message was truncated.
    pub(crate) whole: usize,
    /// True if the message has bytes only, without ancillary data.
    pub(crate) is_plain: bool,
    /// The ancillary data; its bytes are empty.
    pub(crate) message: AncillaryMessage,
}

/// Receives the next part of a stream, or a datagram, into `buffer`.
pub(crate) fn receive(
    socket: &Socket,
    buffer: &mut [u8],
    is_datagram: bool,
) -> io::Result<AncillaryRead> {
    let received = ancillary::receive(socket.as_fd(), buffer, is_datagram)?;
    let wanted = socket.receives_descriptors();
    let is_truncated = received.is_truncated && wanted;
    let passed: Vec<Io> =
        received.passed.into_iter().filter(|_| wanted).map(wrap_descriptor).collect();
    let is_plain = passed.is_empty() && received.credentials.is_none() && !is_truncated;
    // A stream has no sender address per message: its sender is the peer.
    let from = received.from.filter(|_| is_datagram).and_then(from_kernel).filter(is_named);
    let message = AncillaryMessage {
        passed,
        peer: from,
        credentials: received.credentials,
        truncated: is_truncated || received.whole > buffer.len(),
        ..AncillaryMessage::default()
    };
    Ok(AncillaryRead { whole: received.whole, is_plain, message })
}

/// Returns how many reads of its round a message counts for: one for each descriptor, so that a round delivers
/// few descriptors. Descriptors stay open until the handlers have dropped them.
pub(crate) fn reads_for(message: &AncillaryMessage) -> u32 {
    u32::try_from(message.passed.len().max(1)).unwrap_or(u32::MAX)
}

/// Sends a message to this address, or to the connected peer; returns the number of bytes sent.
pub(crate) fn send(
    socket: &Socket,
    message: &AncillaryMessage,
    to: Option<&Address>,
) -> io::Result<usize> {
    let mut passed = Vec::with_capacity(message.passed.len());
    for io in &message.passed {
        let descriptor = io.get::<OwnedFd>().ok_or_else(|| {
            invalid_input(format!(
                "cannot pass a {}: only file descriptors can be passed (SCM_RIGHTS)",
                io.kind()
            ))
        })?;
        passed.push(descriptor.as_fd());
    }
    if passed.len() > MAX_PASSED_FDS {
        let count = passed.len();
        let what = format!(
            "cannot pass {count} descriptors in one message: the limit is {MAX_PASSED_FDS}"
        );
        return Err(invalid_input(what));
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
            let what = "cannot pass descriptors (ETOOMANYREFS): this user has too many in flight \
                        that no process has received";
            invalid_input(what.into())
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
        // The buffer has room for the maximum number of descriptors, which was checked.
        control.push(SendAncillaryMessage::ScmRights(passed));
    }
    control
}

fn invalid_input(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}

/// True if the message is at fault, not the socket: refused here, or by the kernel (EINVAL), which does not
/// pass an io_uring descriptor.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}
