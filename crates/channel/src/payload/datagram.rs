//! Messages with an address.

use std::fmt;

use bytes::Bytes;

use crate::address::Address;

/// One datagram: what channels of datagrams read and write. It arrives as a whole or not at all; whether
/// it does, nobody is told.
///
/// Read, it says where it comes from: to answer, [write one back](Self::answer). Written, it says where it
/// goes; without that, to whom the channel is connected.
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
    /// How long it was on its way.
    whole: usize,
}

impl Datagram {
    /// A datagram to whom the channel is connected.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { whole: bytes.len(), bytes, peer: None }
    }

    /// A datagram to this address.
    #[must_use]
    pub fn to(peer: impl Into<Address>, bytes: impl Into<Bytes>) -> Self {
        Self { peer: Some(peer.into()), ..Self::new(bytes) }
    }

    /// One that a driver has received: from this peer, if it has an address, and so long before its end
    /// was cut off.
    #[must_use]
    pub fn received(peer: Option<Address>, bytes: Bytes, whole: usize) -> Self {
        Self { bytes, peer, whole }
    }

    /// A datagram to where this one comes from.
    #[must_use]
    pub fn answer(&self, bytes: impl Into<Bytes>) -> Self {
        Self { peer: self.peer.clone(), ..Self::new(bytes) }
    }

    /// What is in it.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What is in it, for good.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Where it comes from, or goes. A peer need not have an address: an unbound Unix socket has none.
    #[must_use]
    pub fn peer(&self) -> Option<&Address> {
        self.peer.as_ref()
    }

    /// Whether it was longer than the channel's [reads](crate::ChannelOptions::receive_sizes) at most are:
    /// the rest is lost.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.whole > self.bytes.len()
    }

    /// How long it was when it was sent.
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
