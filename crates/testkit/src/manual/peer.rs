//! The test's end of a stream.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use super::stream::{Connection, Stream};

/// The other side of a connected stream. Dropping it ends the stream: the driver's side reads an end,
/// and its writes fail.
///
/// ```
/// use waterwheel_channel::driver::{OpenDriver, OutQueue, Role, Submit};
/// use waterwheel_channel::Token;
/// use waterwheel_testkit::manual::Manual;
///
/// let manual = Manual::readiness();
/// let mut driver = manual.open()?;
/// let (io, peer) = manual.pair();
/// driver.attach(Token::from_bits(0), io, Role::Stream)?;
///
/// peer.set_limit(4);
/// let mut queue = OutQueue::new();
/// queue.push("hello".into());
/// assert_eq!(driver.write(Token::from_bits(0), &queue)?, Submit::Done(4), "there is no more room");
/// assert_eq!(peer.received(), "hell");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Peer {
    stream: Arc<Stream>,
}

impl Peer {
    pub(super) fn new(stream: Arc<Stream>) -> Self {
        Self { stream }
    }

    /// The address it has in the driver's eyes.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.stream.address
    }

    /// Sends bytes; there is always room.
    pub fn send(&self, bytes: impl AsRef<[u8]>) {
        self.stream.change_for_driver(|state| state.inbound.extend_from_slice(bytes.as_ref()));
    }

    /// Sends no more: the driver's side reads an end after what was sent.
    pub fn finish(&self) {
        self.stream.change_for_driver(|state| state.inbound_over = true);
    }

    /// Resets the connection, both ways.
    pub fn reset(&self) {
        self.stream.change_for_driver(|state| {
            state.reset = Some(io::ErrorKind::ConnectionReset);
            state.outbound_over = true;
        });
    }

    /// How many bytes may be under way to this peer. A write is short or has to wait when they are;
    /// [`received`](Self::received) makes room.
    pub fn set_limit(&self, limit: usize) {
        self.stream.change_for_driver(|state| state.limit = limit);
    }

    /// Takes what has arrived, which makes room for more.
    pub fn received(&self) -> Bytes {
        self.stream.change_for_driver(|state| state.outbound.split().freeze())
    }

    /// Blocks until so many bytes have arrived, and takes them.
    ///
    /// # Panics
    /// If the stream ends before, or after twenty seconds.
    pub fn receive(&self, len: usize) -> Bytes {
        let mut taken = bytes::BytesMut::new();
        while taken.len() < len {
            let state = self
                .stream
                .until("bytes", |state| !state.outbound.is_empty() || state.outbound_over);
            let left = len - taken.len();
            let (there, over) = (state.outbound.len(), state.outbound_over);
            drop(state);
            assert!(there > 0 || !over, "the stream ended {left} bytes early");
            let bytes =
                self.stream.change_for_driver(|state| state.outbound.split_to(left.min(there)));
            taken.extend_from_slice(&bytes);
        }
        taken.freeze()
    }

    /// How many bytes the driver's side has not read yet.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.stream.lock().inbound.len()
    }

    /// Whether the driver's side will send no more: it was shut down, closed or reset.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.stream.lock().outbound_over
    }

    /// Whether the driver's side has been closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.stream.lock().closed
    }

    /// Blocks until the driver's side will send no more.
    ///
    /// # Panics
    /// After twenty seconds.
    pub fn wait_ended(&self) {
        drop(self.stream.until("end", |state| state.outbound_over));
    }

    /// Blocks until the driver's side has been closed.
    ///
    /// # Panics
    /// After twenty seconds.
    pub fn wait_closed(&self) {
        drop(self.stream.until("close", |state| state.closed));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stream.change_for_driver(|state| {
            state.abandoned = true;
            // One that was reset has no end: what it has is an error.
            state.inbound_over |= state.reset.is_none();
        });
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.stream.address)
    }
}

/// Answers a socket that is attached as `Connecting`, before or after that. Dropped without an
/// answer, it lets the connect wait for ever.
pub struct PendingConnect {
    stream: Arc<Stream>,
}

impl PendingConnect {
    pub(super) fn new(stream: Arc<Stream>) -> Self {
        Self { stream }
    }

    /// The address that was dialled, once the socket is attached.
    #[must_use]
    pub fn target(&self) -> Option<SocketAddr> {
        match self.stream.lock().connection {
            Connection::Dialling(target) => target,
            _ => None,
        }
    }

    /// Blocks until the socket is attached, and tells the address that was dialled.
    ///
    /// # Panics
    /// After twenty seconds.
    pub fn wait_dialled(&self) -> SocketAddr {
        let dialled = |state: &super::stream::State| {
            matches!(state.connection, Connection::Dialling(Some(_)))
        };
        drop(self.stream.until("dial", dialled));
        self.target().expect("only this side answers, and it has not")
    }

    /// Accepts the connection.
    #[must_use]
    pub fn accept(self) -> Peer {
        self.stream.change_for_driver(|state| state.connection = Connection::Accepted);
        Peer::new(self.stream)
    }

    /// Accepts it, without being the peer.
    pub(super) fn answer(self) {
        self.stream.change_for_driver(|state| state.connection = Connection::Accepted);
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Refuses it, with `ConnectionRefused` or whatever else may happen to a connect.
    pub fn refuse(self, why: io::ErrorKind) {
        self.stream.change_for_driver(|state| state.connection = Connection::Refused(why));
    }

    /// Whether the driver's side has been closed: nobody waits for an answer.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.stream.lock().closed
    }
}

impl fmt::Debug for PendingConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingConnect({:?})", self.target())
    }
}
