//! Datagrams: messages with an address.

use std::fmt;

use bytes::Bytes;

use crate::address::Address;

/// One datagram, as datagram channels read and write it. A datagram arrives whole or is lost, and the
/// sender is not informed.
///
/// A datagram that was read has the address of its sender; [`answer`](Self::answer) returns a datagram to
/// that address. A datagram that is written has the address of its receiver; without an address it is sent
/// to the peer that the channel is connected to.
///
/// ```
/// use bytes::Bytes;
/// use std::net::SocketAddr;
/// use waterwheel_channel::Datagram;
///
/// let there: SocketAddr = "192.0.2.1:37".parse()?;
/// let question = Datagram::to(there, "what time is it?");
/// assert_eq!(question.peer(), Some(&there.into()));
/// let answer = question.answer(Bytes::from_static(b"late"));
/// assert_eq!(answer.peer(), question.peer());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Datagram {
    bytes: Bytes,
    peer: Option<Address>,
    /// The length before truncation.
    whole: usize,
}

impl Datagram {
    /// Returns a datagram to the peer that the channel is connected to.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { whole: bytes.len(), bytes, peer: None }
    }

    /// Returns a datagram to this address.
    #[must_use]
    pub fn to(peer: impl Into<Address>, bytes: impl Into<Bytes>) -> Self {
        Self { peer: Some(peer.into()), ..Self::new(bytes) }
    }

    /// Returns a datagram that a driver has received: from `peer`, if the sender has an address, and
    /// `whole` bytes long before it was truncated.
    #[must_use]
    pub fn received(peer: Option<Address>, bytes: Bytes, whole: usize) -> Self {
        Self { bytes, peer, whole }
    }

    /// Returns a datagram to the sender of this one.
    #[must_use]
    pub fn answer(&self, bytes: impl Into<Bytes>) -> Self {
        Self { peer: self.peer.clone(), ..Self::new(bytes) }
    }

    /// Returns the content.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Converts the datagram to its content.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Returns the address of the sender, or of the receiver. `None` if it has none: an unbound Unix
    /// socket has no address.
    #[must_use]
    pub fn peer(&self) -> Option<&Address> {
        self.peer.as_ref()
    }

    /// True if the datagram was longer than the largest [read](crate::ChannelOptions::receive_sizes) of
    /// the channel; the rest is lost.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.whole > self.bytes.len()
    }

    /// Returns the length of the datagram as it was sent, before truncation.
    #[must_use]
    pub fn whole_len(&self) -> usize {
        self.whole
    }
}

impl fmt::Debug for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Datagram({} bytes", self.bytes.len())?;
        if self.is_truncated() {
            write!(f, " of {}", self.whole)?;
        }
        match &self.peer {
            Some(peer) => write!(f, ", {peer})"),
            None => f.write_str(")"),
        }
    }
}
