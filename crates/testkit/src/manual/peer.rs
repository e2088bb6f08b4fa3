//! The test's end of a stream, and of a pending connect.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use super::stream::{ConnectState, ManualStream};

/// The test's end of a connected stream. Dropping it closes the stream: the driver's side reads end of file, and its
/// writes fail.
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
/// assert_eq!(peer.take_received(), "hell");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Peer {
    stream: Arc<ManualStream>,
}

impl Peer {
    pub(super) fn new(stream: Arc<ManualStream>) -> Self {
        Self { stream }
    }

    /// Returns the peer's address as seen by the driver.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.stream.address
    }

    /// Sends bytes; there is always room.
    pub fn send(&self, bytes: impl AsRef<[u8]>) {
        self.stream.change_for_driver(|state| state.inbound.extend_from_slice(bytes.as_ref()));
    }

    /// Ends the sending direction (half-close): the driver's side reads end of file after the bytes sent before.
    pub fn finish(&self) {
        self.stream.change_for_driver(|state| state.inbound_finished = true);
    }

    /// Resets the connection in both directions.
    pub fn reset(&self) {
        self.stream.change_for_driver(|state| {
            state.reset = Some(io::ErrorKind::ConnectionReset);
            state.outbound_finished = true;
        });
    }

    /// Sets how many unreceived bytes the stream holds. Beyond that a write is short or has to wait;
    /// [`take_received`](Self::take_received) makes room.
    pub fn set_limit(&self, limit: usize) {
        self.stream.change_for_driver(|state| state.outbound_limit = limit);
    }

    /// Takes the bytes that have arrived, which makes room for more.
    pub fn take_received(&self) -> Bytes {
        self.stream.change_for_driver(|state| state.outbound.split().freeze())
    }

    /// Blocks until `len` bytes have arrived, and takes them.
    ///
    /// # Panics
    /// If the stream ends before `len` bytes have arrived, or if they have not arrived after twenty seconds.
    pub fn receive(&self, len: usize) -> Bytes {
        let mut taken = bytes::BytesMut::new();
        while taken.len() < len {
            let state = self
                .stream
                .wait_until("bytes", |state| !state.outbound.is_empty() || state.outbound_finished);
            let left = len - taken.len();
            let (there, over) = (state.outbound.len(), state.outbound_finished);
            drop(state);
            assert!(there > 0 || !over, "the driver's side ended the stream {left} bytes early");
            let bytes =
                self.stream.change_for_driver(|state| state.outbound.split_to(left.min(there)));
            taken.extend_from_slice(&bytes);
        }
        taken.freeze()
    }

    /// Returns how many bytes the driver's side has not read yet.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.stream.lock().inbound.len()
    }

    /// True if the driver's side will send no more: it was shut down, closed or reset.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.stream.lock().outbound_finished
    }

    /// True if the driver's side has been closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.stream.lock().closed
    }

    /// Blocks until the driver's side will send no more.
    ///
    /// # Panics
    /// After twenty seconds.
    pub fn wait_ended(&self) {
        drop(self.stream.wait_until("the end of the stream", |state| state.outbound_finished));
    }

    /// Blocks until the driver's side has been closed.
    ///
    /// # Panics
    /// After twenty seconds.
    pub fn wait_closed(&self) {
        drop(self.stream.wait_until("the close", |state| state.closed));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stream.change_for_driver(|state| {
            state.abandoned = true;
            // A reset stream has no end of file: it has an error.
            state.inbound_finished |= state.reset.is_none();
        });
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.stream.address)
    }
}

/// The test's side of a socket that is attached as `Connecting`: accepts or refuses it, before or after it is attached.
/// The connect stays pending if this value is dropped without an answer.
pub struct PendingConnect {
    stream: Arc<ManualStream>,
}

impl PendingConnect {
    pub(super) fn new(stream: Arc<ManualStream>) -> Self {
        Self { stream }
    }

    /// Returns the address of the connect, once the socket is attached.
    #[must_use]
    pub fn target(&self) -> Option<SocketAddr> {
        match self.stream.lock().connection {
            ConnectState::Connecting(target) => target,
            _ => None,
        }
    }

    /// Blocks until the socket is attached, and returns the address of the connect.
    ///
    /// # Panics
    /// After twenty seconds.
    pub fn wait_dialled(&self) -> SocketAddr {
        let is_connecting = |state: &super::stream::ManualStreamState| {
            matches!(state.connection, ConnectState::Connecting(Some(_)))
        };
        drop(self.stream.wait_until("a connect", is_connecting));
        self.target().expect("the connect is pending until this side answers")
    }

    /// Accepts the connection.
    #[must_use]
    pub fn accept(self) -> Peer {
        self.stream.change_for_driver(|state| state.connection = ConnectState::Accepted);
        Peer::new(self.stream)
    }

    /// Accepts the connection and returns no [`Peer`]: the peer is another channel.
    pub(super) fn accept_linked(self) {
        self.stream.change_for_driver(|state| state.connection = ConnectState::Accepted);
    }

    pub(super) fn stream(&self) -> &Arc<ManualStream> {
        &self.stream
    }

    /// Fails the connect with this error, such as `ConnectionRefused`.
    pub fn refuse(self, why: io::ErrorKind) {
        self.stream.change_for_driver(|state| state.connection = ConnectState::Refused(why));
    }

    /// True if the driver's side has been closed: the connect was abandoned.
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
