//! Ancillary messages: bytes plus file descriptors or credentials (SCM_RIGHTS, SCM_CREDENTIALS).

use std::fmt;

use bytes::{Buf, Bytes};

use super::file_region::FileRegion;
use super::io::Io;
use crate::address::Address;

/// Bytes plus objects of the operating system that are passed to the peer with them: file descriptors
/// (SCM_RIGHTS), opaque in this crate, and the sender's credentials (SCM_CREDENTIALS).
///
/// Channels over Unix sockets read and write ancillary messages, besides bytes or datagrams. They are
/// read only if the option [`ReceivePassed`](crate::driver::SocketOption::ReceivePassed) is set;
/// otherwise passed descriptors are dropped when they arrive.
///
/// - On a stream an ancillary message has no boundaries, as other bytes have none. The passed objects
///   arrive with the read that contains the first of its bytes; that read may contain other bytes before
///   and after it. A message without bytes is refused.
/// - As a datagram it arrives as a whole: at [`peer`](Self::peer), or at the peer that the channel is
///   connected to.
///
/// ```
/// use waterwheel_channel::{AncillaryMessage, Message};
///
/// let message = AncillaryMessage::new("greeting", Vec::new());
/// assert_eq!((message.size_hint(), message.peer), (8, None));
/// ```
///
/// For the water marks an ancillary message counts as its bytes, plus
/// [`PASSED_PENDING_BYTES`](Self::PASSED_PENDING_BYTES) for each descriptor until that was sent. So a
/// peer that passes descriptors and reads no answers cannot make this process hold many of them.
#[derive(Debug, Default)]
pub struct AncillaryMessage {
    /// The bytes.
    pub bytes: Bytes,
    /// The passed descriptors.
    pub passed: Vec<Io>,
    /// The address of the sender of a datagram that was read, or of the receiver of a datagram to write.
    pub peer: Option<Address>,
    /// The credentials of the sender, if the option
    /// [`ReceiveCredentials`](crate::driver::SocketOption::ReceiveCredentials) is set.
    pub credentials: Option<Credentials>,
    /// True if part of the message was lost: the datagram was longer than the read, or this process may
    /// not open so many descriptors (MSG_TRUNC, MSG_CTRUNC).
    pub truncated: bool,
}

impl AncillaryMessage {
    /// The pending bytes that each passed descriptor counts for until it is sent: as many as a
    /// [file region](crate::FileRegion::PENDING_BYTES), which keeps a descriptor open too.
    pub const PASSED_PENDING_BYTES: usize = FileRegion::PENDING_BYTES;

    /// Returns an ancillary message to the peer that the channel is connected to.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>, passed: Vec<Io>) -> Self {
        Self { bytes: bytes.into(), passed, ..Self::default() }
    }

    /// Returns an ancillary message to this address, as a datagram.
    #[must_use]
    pub fn to(peer: impl Into<Address>, bytes: impl Into<Bytes>, passed: Vec<Io>) -> Self {
        Self { peer: Some(peer.into()), ..Self::new(bytes, passed) }
    }

    /// Removes `n` bytes that were written to a stream from the front. Returns the descriptors, which were
    /// passed with the first byte, for the caller to drop.
    pub(crate) fn advance(&mut self, n: usize) -> Vec<Io> {
        assert!(
            n <= self.bytes.len(),
            "the driver reported {n} bytes sent, but {} are left in the message",
            self.bytes.len()
        );
        self.bytes.advance(n);
        std::mem::take(&mut self.passed)
    }

    /// Returns the pending bytes that the passed descriptors count for.
    pub(crate) fn passed_pending_bytes(&self) -> usize {
        self.passed.len() * Self::PASSED_PENDING_BYTES
    }
}

/// The credentials of a process on this machine, as the kernel reports them (SCM_CREDENTIALS, SO_PEERCRED).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The process id; `None` if the process is not visible in this PID namespace.
    pub process: Option<u32>,
    /// The user id.
    pub user: u32,
    /// The group id.
    pub group: u32,
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "process {process}")?,
            None => f.write_str("a process of another PID namespace")?,
        }
        write!(f, " of user {} and group {}", self.user, self.group)
    }
}
