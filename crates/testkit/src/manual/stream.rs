//! A stream in memory, between a driver and the test's peer.
//!
//! ```text
//!   driver's end              the stream                     test's end
//!   read  ◄──────── inbound, inbound_finished ◄───────────── send, finish
//!   send  ────────► outbound (limited), outbound_finished ─► take_received, receive
//!                   reset: both ways
//! ```
//!
//! The loop's thread accesses a stream through [`StreamEnd`], the test's threads through [`Peer`] and
//! [`PendingConnect`], always under the stream's own lock.
//!
//! The peer may also be the stream of another driver: then two streams are [linked](super::link), and the outbound
//! bytes of one are the inbound bytes of the other.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::{Bytes, BytesMut};

use super::TIMEOUT;
use super::kernel::Kernel;
use super::link::Link;
use super::peer::{Peer, PendingConnect};

/// How many unreceived bytes a stream holds, unless the test sets another limit.
pub const SEND_BUFFER: usize = 64 * 1024;

/// The driver's end of a stream. Dropping it closes the stream.
pub(super) struct StreamEnd {
    stream: Arc<ManualStream>,
}

pub(super) struct ManualStream {
    pub(super) address: SocketAddr,
    state: Mutex<ManualStreamState>,
    changed: Condvar,
    /// The link to the peer stream, set once before a driver gets this stream.
    pub(super) link: OnceLock<Link>,
}

pub(super) struct ManualStreamState {
    pub(super) connection: ConnectState,
    pub(super) inbound: BytesMut,
    /// True if no more bytes will arrive.
    pub(super) inbound_finished: bool,
    pub(super) outbound: BytesMut,
    /// True if the driver's side will send no more.
    pub(super) outbound_finished: bool,
    /// The maximum length of `outbound`.
    pub(super) outbound_limit: usize,
    /// The error of a reset, until it has been reported.
    pub(super) reset: Option<io::ErrorKind>,
    /// True once the driver's end has been dropped.
    pub(super) closed: bool,
    /// True once the test's end has been dropped, or the linked stream has been closed.
    pub(super) abandoned: bool,
    notifier: Option<DriverNotifier>,
}

#[derive(Clone, Copy)]
pub(super) enum ConnectState {
    /// The connect is not answered yet; holds its address once the socket is attached.
    Connecting(Option<SocketAddr>),
    /// Accepted by the peer; the driver has not reported it yet.
    Accepted,
    Refused(io::ErrorKind),
    Open,
}

/// The driver to notify when a socket has changed.
#[derive(Clone)]
pub(super) struct DriverNotifier {
    pub(super) kernel: Arc<Kernel>,
    pub(super) driver: usize,
}

impl DriverNotifier {
    pub(super) fn notify(&self) {
        self.kernel.mark_changed(self.driver);
    }
}

pub(super) fn new_connected(address: SocketAddr) -> (StreamEnd, Peer) {
    let stream = ManualStream::new(address, ConnectState::Open);
    (StreamEnd { stream: stream.clone() }, Peer::new(stream))
}

pub(super) fn new_connecting(address: SocketAddr) -> (StreamEnd, PendingConnect) {
    let stream = ManualStream::new(address, ConnectState::Connecting(None));
    (StreamEnd { stream: stream.clone() }, PendingConnect::new(stream))
}

impl StreamEnd {
    pub(super) fn new(stream: Arc<ManualStream>) -> Self {
        Self { stream }
    }

    pub(super) fn set_notifier(&self, notifier: DriverNotifier) {
        self.stream.lock().notifier = Some(notifier);
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.stream.lock().connection, ConnectState::Open)
    }

    pub(super) fn begin_connect(&self, target: SocketAddr) {
        let mut state = self.stream.lock();
        if let ConnectState::Connecting(remote) = &mut state.connection {
            *remote = Some(target);
        }
        drop(state);
        self.stream.changed.notify_all();
    }

    pub(super) fn is_answered(&self) -> bool {
        !matches!(self.stream.lock().connection, ConnectState::Connecting(_))
    }

    /// Returns the outcome of a connect; `None` while it is pending.
    pub(super) fn finish_connect(&self) -> Option<io::Result<()>> {
        let mut state = self.stream.lock();
        match state.connection {
            ConnectState::Connecting(_) => None,
            ConnectState::Refused(kind) => Some(Err(kind.into())),
            ConnectState::Accepted | ConnectState::Open => {
                state.connection = ConnectState::Open;
                Some(Ok(()))
            }
        }
    }

    pub(super) fn has_input(&self) -> bool {
        !self.stream.lock().inbound.is_empty()
    }

    /// True if the input has ended and everything that arrived was read.
    pub(super) fn is_at_end(&self) -> bool {
        let state = self.stream.lock();
        state.inbound.is_empty() && state.inbound_finished
    }

    /// True if the peer will send no more and has not reset the stream.
    pub(super) fn has_peer_finished(&self) -> bool {
        let state = self.stream.lock();
        state.inbound_finished && state.reset.is_none()
    }

    /// Takes up to `size` inbound bytes, at least one. Returns `None` if none has arrived: the stream may still be open.
    pub(super) fn read(&self, size: usize) -> Option<Bytes> {
        let bytes = self.stream.change(|state| {
            let len = size.max(1).min(state.inbound.len());
            state.inbound.split_to(len).freeze()
        });
        Some(bytes).filter(|bytes| !bytes.is_empty())
    }

    /// True if a write would accept bytes or fail.
    pub(super) fn is_writable(&self) -> bool {
        let state = self.stream.lock();
        state.outbound.len() < state.outbound_limit || state.must_refuse_writes()
    }

    /// Appends as many bytes of the chunks as there is room for. Returns how many.
    pub(super) fn send<'a>(&self, chunks: impl Iterator<Item = &'a Bytes>) -> io::Result<usize> {
        self.stream.change(|state| {
            if let Some(kind) = state.reset.take() {
                return Err(kind.into());
            }
            if state.must_refuse_writes() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let before = state.outbound.len();
            for chunk in chunks {
                let room = state.outbound_limit.saturating_sub(state.outbound.len());
                state.outbound.extend_from_slice(&chunk[..room.min(chunk.len())]);
            }
            Ok(state.outbound.len() - before)
        })
    }

    pub(super) fn shutdown_input(&self) {
        self.stream.change(|state| {
            state.inbound.clear();
            state.inbound_finished = true;
        });
    }

    pub(super) fn shutdown_output(&self) {
        self.stream.change(|state| state.outbound_finished = true);
    }

    pub(super) fn is_reset(&self) -> bool {
        self.stream.lock().reset.is_some()
    }

    pub(super) fn take_error(&self) -> Option<io::Error> {
        self.stream.lock().reset.take().map(io::Error::from)
    }
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        self.stream.change(|state| {
            state.closed = true;
            state.outbound_finished = true;
            state.notifier = None;
        });
    }
}

impl ManualStream {
    pub(super) fn new(address: SocketAddr, connection: ConnectState) -> Arc<Self> {
        let state = ManualStreamState {
            connection,
            inbound: BytesMut::new(),
            inbound_finished: false,
            outbound: BytesMut::new(),
            outbound_finished: false,
            outbound_limit: SEND_BUFFER,
            reset: None,
            closed: false,
            abandoned: false,
            notifier: None,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Arc::new(Self { address, state, changed, link: OnceLock::new() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ManualStreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the stream on the driver's side, notifies the test's threads, and transfers bytes to a linked stream.
    fn change<R>(&self, how: impl FnOnce(&mut ManualStreamState) -> R) -> R {
        let result = how(&mut self.lock());
        self.changed.notify_all();
        if let Some(link) = self.link.get() {
            link.transfer(self);
        }
        result
    }

    /// Changes the stream on the test's side and notifies the driver too.
    pub(super) fn change_for_driver<R>(&self, how: impl FnOnce(&mut ManualStreamState) -> R) -> R {
        let mut state = self.lock();
        let result = how(&mut state);
        let notifier = state.notifier.clone();
        drop(state);
        self.changed.notify_all();
        if let Some(notifier) = notifier {
            notifier.notify();
        }
        result
    }

    /// Blocks a test's thread until `holds` returns true.
    pub(super) fn wait_until(
        &self,
        what: &str,
        mut holds: impl FnMut(&ManualStreamState) -> bool,
    ) -> MutexGuard<'_, ManualStreamState> {
        let waited = self.changed.wait_timeout_while(self.lock(), TIMEOUT, |state| !holds(state));
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        let queued = state.outbound.len();
        assert!(
            !waited.timed_out(),
            "timed out after {TIMEOUT:?} waiting for {what}; {queued} outbound bytes are queued"
        );
        state
    }
}

impl ManualStreamState {
    fn must_refuse_writes(&self) -> bool {
        self.reset.is_some() || self.abandoned || self.outbound_finished
    }
}
