//! Bytes with something that is no bytes.

use std::fmt;

use bytes::{Buf, Bytes};

use super::file_region::FileRegion;
use super::io::Io;
use crate::address::Address;

/// Bytes, and what is handed over with them: things of the operating system's, opaque here, that the peer has
/// too once it has read them. What the crate with the sockets makes of a descriptor is one.
///
/// Channels over Unix sockets read and write them, besides bytes or datagrams. They are read only if that was
/// [asked for](crate::driver::SocketOption::ReceivePassed); otherwise what is passed is dropped on its way.
///
/// - On a stream an ancillary message is no more of a unit than any other bytes. What is passed arrives with the read in
///   which the first of its bytes does; before that byte, and behind it, there may be others in that read.
///   It has at least one byte, or its write is refused.
/// - As a datagram it arrives as a whole, to [`peer`](Self::peer) or to whom the channel is connected.
///
/// ```
/// use waterwheel_channel::{Message, AncillaryMessage};
///
/// let letter = AncillaryMessage::new("a letter", Vec::new());
/// assert_eq!((letter.size_hint(), letter.peer), (8, None));
/// ```
///
/// For the water marks an ancillary message weighs its bytes, and [`PASSED_PENDING_BYTES`](Self::PASSED_PENDING_BYTES) for each
/// descriptor until that has gone: a peer that passes descriptors and reads no answers cannot make
/// this process hold many of them.
#[derive(Debug, Default)]
pub struct AncillaryMessage {
    /// The bytes.
    pub bytes: Bytes,
    /// What is passed.
    pub passed: Vec<Io>,
    /// Of a datagram: where it comes from, or goes.
    pub peer: Option<Address>,
    /// Who has sent it, if that was [asked for](crate::driver::SocketOption::ReceiveCredentials).
    pub credentials: Option<Credentials>,
    /// Something of it is lost: there was no room for all the bytes of a datagram, or this process may not
    /// have so many descriptors.
    pub truncated: bool,
}

impl AncillaryMessage {
    /// What each descriptor of an ancillary message weighs while the ancillary message waits to be written: as much as a
    /// [file](crate::FileRegion::PENDING_BYTES), which is a descriptor too.
    pub const PASSED_PENDING_BYTES: usize = FileRegion::PENDING_BYTES;

    /// An ancillary message to whom the channel is connected.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>, passed: Vec<Io>) -> Self {
        Self { bytes: bytes.into(), passed, ..Self::default() }
    }

    /// An ancillary message to this address, as a datagram.
    #[must_use]
    pub fn to(peer: impl Into<Address>, bytes: impl Into<Bytes>, passed: Vec<Io>) -> Self {
        Self { peer: Some(peer.into()), ..Self::new(bytes, passed) }
    }

    /// Notes that so many bytes of it were written, on a stream. Returns what was passed with the first of
    /// them, for the caller to drop.
    pub(crate) fn advance(&mut self, n: usize) -> Vec<Io> {
        assert!(n <= self.bytes.len(), "{n} bytes sent of {}", self.bytes.len());
        self.bytes.advance(n);
        std::mem::take(&mut self.passed)
    }

    /// How much of its weight is not bytes.
    pub(crate) fn passed_pending_bytes(&self) -> usize {
        self.passed.len() * Self::PASSED_PENDING_BYTES
    }
}

/// Who somebody is on this machine, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The process; `None` if it cannot be seen from here.
    pub process: Option<u32>,
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "process {process}")?,
            None => f.write_str("a process out of sight")?,
        }
        write!(f, " of user {} and group {}", self.user, self.group)
    }
}
