//! A stream in memory: what lies between a driver and the test's peer.
//!
//! ```text
//!   driver's end            the stream              test's end
//!   read  ◄──────── inbound, inbound_over ◄──────── send, finish
//!   send  ────────► outbound (limited), outbound_over ─────► received
//!                   reset: both ways
//! ```
//!
//! Touched by the loop's thread through [`StreamEnd`] and by the test's threads through
//! [`Peer`] and [`PendingConnect`], always under the stream's own lock.
//!
//! Instead of a test there may be another driver's end at the other side: then two streams are
//! [linked](super::link), and what goes out of one comes in at the other.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::{Bytes, BytesMut};

use super::PATIENCE;
use super::kernel::Kernel;
use super::link::Link;
use super::peer::{Peer, PendingConnect};

/// How many bytes of a stream may be under way to the peer, unless the test says otherwise.
pub const SEND_BUFFER: usize = 64 * 1024;

/// The end that a driver is given. Dropping it closes the stream.
pub(super) struct StreamEnd {
    stream: Arc<Stream>,
}

pub(super) struct Stream {
    pub(super) address: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    /// Set once, before a driver has it.
    pub(super) link: OnceLock<Link>,
}

pub(super) struct State {
    pub(super) connection: Connection,
    pub(super) inbound: BytesMut,
    pub(super) inbound_over: bool,
    pub(super) outbound: BytesMut,
    pub(super) outbound_over: bool,
    /// How long `outbound` may be.
    pub(super) limit: usize,
    /// The error of a reset, until somebody has been told.
    pub(super) reset: Option<io::ErrorKind>,
    /// The driver's end is gone.
    pub(super) closed: bool,
    /// The test's end is gone.
    pub(super) abandoned: bool,
    watcher: Option<Watcher>,
}

#[derive(Clone, Copy)]
pub(super) enum Connection {
    /// Nobody has answered; the address that was dialled.
    Dialling(Option<SocketAddr>),
    /// Answered, the driver does not know yet.
    Accepted,
    Refused(io::ErrorKind),
    Open,
}

/// The driver that is to look again when something has changed.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) kernel: Arc<Kernel>,
    pub(super) driver: usize,
}

impl Watcher {
    pub(super) fn touch(&self) {
        self.kernel.touch(self.driver);
    }
}

pub(super) fn connected(address: SocketAddr) -> (StreamEnd, Peer) {
    let stream = Stream::new(address, Connection::Open);
    (StreamEnd { stream: stream.clone() }, Peer::new(stream))
}

pub(super) fn dialling(address: SocketAddr) -> (StreamEnd, PendingConnect) {
    let stream = Stream::new(address, Connection::Dialling(None));
    (StreamEnd { stream: stream.clone() }, PendingConnect::new(stream))
}

impl StreamEnd {
    pub(super) fn new(stream: Arc<Stream>) -> Self {
        Self { stream }
    }

    pub(super) fn watch(&self, watcher: Watcher) {
        self.stream.lock().watcher = Some(watcher);
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.stream.lock().connection, Connection::Open)
    }

    pub(super) fn dial(&self, target: SocketAddr) {
        let mut state = self.stream.lock();
        if let Connection::Dialling(dialled) = &mut state.connection {
            *dialled = Some(target);
        }
        drop(state);
        self.stream.changed.notify_all();
    }

    pub(super) fn is_answered(&self) -> bool {
        !matches!(self.stream.lock().connection, Connection::Dialling(_))
    }

    /// The answer to a dial; `None` if there is none yet.
    pub(super) fn finish_connect(&self) -> Option<io::Result<()>> {
        let mut state = self.stream.lock();
        match state.connection {
            Connection::Dialling(_) => None,
            Connection::Refused(kind) => Some(Err(kind.into())),
            Connection::Accepted | Connection::Open => {
                state.connection = Connection::Open;
                Some(Ok(()))
            }
        }
    }

    pub(super) fn has_input(&self) -> bool {
        !self.stream.lock().inbound.is_empty()
    }

    /// Whether everything that the peer will ever send has been read.
    pub(super) fn is_at_end(&self) -> bool {
        let state = self.stream.lock();
        state.inbound.is_empty() && state.inbound_over
    }

    /// Whether the peer will send no more, and has not reset the stream.
    pub(super) fn has_finished(&self) -> bool {
        let state = self.stream.lock();
        state.inbound_over && state.reset.is_none()
    }

    pub(super) fn read(&self, size: usize) -> Option<Bytes> {
        let bytes = self.stream.change(|state| {
            let len = size.max(1).min(state.inbound.len());
            state.inbound.split_to(len).freeze()
        });
        Some(bytes).filter(|bytes| !bytes.is_empty())
    }

    /// Whether a write would take something or fail.
    pub(super) fn is_writable(&self) -> bool {
        let state = self.stream.lock();
        state.outbound.len() < state.limit || state.refuses_writes()
    }

    /// Takes what there is room for.
    pub(super) fn send<'a>(&self, chunks: impl Iterator<Item = &'a Bytes>) -> io::Result<usize> {
        self.stream.change(|state| {
            if let Some(kind) = state.reset.take() {
                return Err(kind.into());
            }
            if state.refuses_writes() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let before = state.outbound.len();
            for chunk in chunks {
                let room = state.limit.saturating_sub(state.outbound.len());
                state.outbound.extend_from_slice(&chunk[..room.min(chunk.len())]);
            }
            Ok(state.outbound.len() - before)
        })
    }

    pub(super) fn shut_input(&self) {
        self.stream.change(|state| {
            state.inbound.clear();
            state.inbound_over = true;
        });
    }

    pub(super) fn shut_output(&self) {
        self.stream.change(|state| state.outbound_over = true);
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
            state.outbound_over = true;
            state.watcher = None;
        });
    }
}

impl Stream {
    pub(super) fn new(address: SocketAddr, connection: Connection) -> Arc<Self> {
        let state = State {
            connection,
            inbound: BytesMut::new(),
            inbound_over: false,
            outbound: BytesMut::new(),
            outbound_over: false,
            limit: SEND_BUFFER,
            reset: None,
            closed: false,
            abandoned: false,
            watcher: None,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Arc::new(Self { address, state, changed, link: OnceLock::new() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the stream on the driver's side: the test's threads are told.
    fn change<R>(&self, how: impl FnOnce(&mut State) -> R) -> R {
        let result = how(&mut self.lock());
        self.changed.notify_all();
        if let Some(link) = self.link.get() {
            link.carry(self);
        }
        result
    }

    /// Changes the stream on the test's side: the driver is told as well.
    pub(super) fn change_for_driver<R>(&self, how: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = how(&mut state);
        let watcher = state.watcher.clone();
        drop(state);
        self.changed.notify_all();
        if let Some(watcher) = watcher {
            watcher.touch();
        }
        result
    }

    /// Blocks a test's thread until the stream is as it should be.
    pub(super) fn until(
        &self,
        what: &str,
        mut holds: impl FnMut(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.lock(), PATIENCE, |state| !holds(state));
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        let seen = state.outbound.len();
        assert!(!waited.timed_out(), "no {what} after {PATIENCE:?}; {seen} bytes are there");
        state
    }
}

impl State {
    fn refuses_writes(&self) -> bool {
        self.reset.is_some() || self.abandoned || self.outbound_over
    }
}
