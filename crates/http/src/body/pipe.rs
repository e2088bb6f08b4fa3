//! A pipe from a connection to the reader of a body, on one loop.
//!
//! The connection pushes what it decodes; the reader takes it. While [`MAX_WAITING`] bytes wait, the pipe holds a
//! [`ReadPause`] of the channel, so a body that nobody reads stops the socket. Nothing is borrowed while a waker is
//! called.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use waterwheel_channel::{Ctx, ReadPause};

use super::error::BodyError;

/// The number of waiting bytes at which reads pause. One read may exceed it.
pub(crate) const MAX_WAITING: usize = 64 * 1024;

/// The longest chunk that is copied behind those that wait. A chunk of its own has an entry in the queue, and keeps the
/// block that it was read into: a body in chunks of one byte would take many times its length.
const MAX_COPIED: usize = 512;

/// A body on its way from the connection to its reader.
pub(crate) struct BodyPipe {
    state: RefCell<PipeState>,
    /// Wakes the reader that waits for a chunk.
    reader: Cell<Option<Waker>>,
    /// Wakes the connection, which answers `100 Continue` when the reader waits, or looks after a body that was dropped.
    connection: Cell<Option<Waker>>,
    /// The bytes of the body that have not been pushed, if the length is known.
    missing: Cell<Option<u64>>,
    /// True while the client waits for `100 Continue`.
    awaits_continue: Cell<bool>,
    /// True if the reader has waited for a chunk.
    is_wanted: Cell<bool>,
    /// True once nothing reads the body any more.
    is_abandoned: Cell<bool>,
    /// The bytes that were dropped because nothing reads them.
    dropped: Cell<u64>,
    /// True if reads were paused since the last check of the rate.
    was_paused: Cell<bool>,
}

struct PipeState {
    chunks: VecDeque<Bytes>,
    /// Small chunks behind those of the queue, in one piece.
    joined: BytesMut,
    /// The bytes of all chunks.
    waiting: usize,
    end: PipeEnd,
    trailers: Option<Box<HeaderMap>>,
    pause: Option<ReadPause>,
}

#[derive(Clone, Copy)]
enum PipeEnd {
    /// More may come.
    Open,
    /// Everything has come.
    Complete,
    Failed(BodyError),
}

impl PipeState {
    fn append(&mut self, bytes: Bytes) {
        self.waiting += bytes.len();
        if bytes.len() <= MAX_COPIED && self.waiting > bytes.len() {
            self.joined.extend_from_slice(&bytes);
            return;
        }
        if !self.joined.is_empty() {
            let joined = std::mem::take(&mut self.joined).freeze();
            self.chunks.push_back(joined);
        }
        self.chunks.push_back(bytes);
    }

    fn take_chunk(&mut self) -> Option<Bytes> {
        let chunk = match self.chunks.pop_front() {
            Some(chunk) => chunk,
            None if self.joined.is_empty() => return None,
            None => std::mem::take(&mut self.joined).freeze(),
        };
        self.waiting -= chunk.len();
        Some(chunk)
    }
}

impl BodyPipe {
    pub(crate) fn new(length: Option<u64>, awaits_continue: bool) -> Self {
        let state = PipeState {
            chunks: VecDeque::new(),
            joined: BytesMut::new(),
            waiting: 0,
            end: PipeEnd::Open,
            trailers: None,
            pause: None,
        };
        Self {
            state: RefCell::new(state),
            reader: Cell::new(None),
            connection: Cell::new(None),
            missing: Cell::new(length),
            awaits_continue: Cell::new(awaits_continue),
            is_wanted: Cell::new(false),
            is_abandoned: Cell::new(false),
            dropped: Cell::new(0),
            was_paused: Cell::new(false),
        }
    }

    // The connection's side.

    /// Appends bytes. Returns false if nothing reads the body: the bytes were dropped.
    pub(crate) fn push(&self, ctx: &Ctx<'_>, bytes: Bytes) -> bool {
        self.awaits_continue.set(false);
        self.missing
            .set(self.missing.get().map(|missing| missing.saturating_sub(bytes.len() as u64)));
        if self.is_abandoned.get() {
            self.dropped.set(self.dropped.get() + bytes.len() as u64);
            return false;
        }
        let mut state = self.state.borrow_mut();
        state.append(bytes);
        if state.waiting >= MAX_WAITING && state.pause.is_none() {
            state.pause = Some(ctx.pause_reads());
            self.was_paused.set(true);
        }
        drop(state);
        self.wake_reader();
        true
    }

    /// Ends the body.
    pub(crate) fn finish(&self, trailers: Option<Box<HeaderMap>>) {
        let mut state = self.state.borrow_mut();
        self.awaits_continue.set(false);
        state.end = PipeEnd::Complete;
        state.trailers = trailers;
        drop(state);
        self.missing.set(Some(0));
        self.wake_reader();
    }

    /// Ends the body with an error, unless it has ended.
    pub(crate) fn fail(&self, error: BodyError) {
        let mut state = self.state.borrow_mut();
        if matches!(state.end, PipeEnd::Open) {
            state.end = PipeEnd::Failed(error);
        }
        let pause = state.pause.take();
        drop(state);
        drop(pause);
        self.wake_reader();
    }

    /// Returns how many bytes were dropped because nothing reads them.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Returns how many bytes have not been pushed; zero if nobody knows.
    pub(crate) fn missing(&self) -> u64 {
        self.missing.get().unwrap_or(0)
    }

    /// True if nothing reads the body any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.get()
    }

    /// True while more has to come, and the peer has been told to send it.
    pub(crate) fn waits_for_peer(&self) -> bool {
        matches!(self.state.borrow().end, PipeEnd::Open) && !self.awaits_continue.get()
    }

    /// True if reads are paused, or were since the last call. The reader may be anywhere on the loop, so nothing tells
    /// the connection when they resume.
    pub(crate) fn take_paused(&self) -> bool {
        let is_paused = self.state.borrow().pause.is_some();
        self.was_paused.replace(is_paused) || is_paused
    }

    /// True if the reader waits and the client has to be told to send the body: once.
    pub(crate) fn take_continue(&self) -> bool {
        self.is_wanted.get() && self.awaits_continue.replace(false)
    }

    /// True if the body may still be read and the client has to be told to send it: once.
    pub(crate) fn take_late_continue(&self) -> bool {
        !self.is_abandoned.get() && self.awaits_continue.replace(false)
    }

    /// True if the client still waits to be told to send the body.
    pub(crate) fn awaits_continue(&self) -> bool {
        self.awaits_continue.get()
    }

    /// Sets the waker of the connection.
    pub(crate) fn set_connection(&self, waker: &Waker) {
        if self.awaits_continue.get() {
            self.connection.set(Some(waker.clone()));
        }
    }

    /// Sets the waker that is called when the body is dropped.
    pub(crate) fn wake_on_abandon(&self, waker: &Waker) {
        let before = self.connection.replace(Some(waker.clone()));
        drop(before);
    }

    /// Reads the channel again, although the reader has not taken all: no more comes for this pipe.
    pub(crate) fn end_pause(&self) {
        let pause = self.state.borrow_mut().pause.take();
        drop(pause);
    }

    fn wake_reader(&self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    // The reader's side.

    /// Returns the next chunk; `None` at the end.
    pub(crate) fn poll_chunk(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        let mut state = self.state.borrow_mut();
        if let Some(chunk) = state.take_chunk() {
            let resumes = state.waiting < MAX_WAITING;
            let pause = resumes.then(|| state.pause.take());
            drop(state);
            drop(pause);
            return Poll::Ready(Some(Ok(chunk)));
        }
        match state.end {
            PipeEnd::Complete => Poll::Ready(None),
            PipeEnd::Failed(error) => Poll::Ready(Some(Err(error))),
            PipeEnd::Open => {
                drop(state);
                self.reader.set(Some(cx.waker().clone()));
                // Once: a request whose turn has not come would wake the connection again and again.
                if !self.is_wanted.replace(true)
                    && let Some(connection) = self.connection.take()
                {
                    connection.wake();
                }
                Poll::Pending
            }
        }
    }

    /// Returns the number of bytes that the reader has not taken, if the length is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        let waiting = self.state.borrow().waiting as u64;
        self.missing.get().map(|missing| missing + waiting)
    }

    /// True if the body has ended with trailers, which the reader has not taken.
    pub(crate) fn has_trailers(&self) -> bool {
        self.state.borrow().trailers.is_some()
    }

    /// Takes the trailers, after the end.
    pub(crate) fn take_trailers(&self) -> Option<Box<HeaderMap>> {
        self.state.borrow_mut().trailers.take()
    }

    /// Drops what waits, and what comes from now on.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.set(true);
        let mut state = self.state.borrow_mut();
        let pause = state.pause.take();
        let chunks = (std::mem::take(&mut state.chunks), std::mem::take(&mut state.joined));
        self.dropped.set(self.dropped.get() + state.waiting as u64);
        state.waiting = 0;
        drop(state);
        drop((chunks, pause));
        drop(self.reader.take());
        if let Some(connection) = self.connection.take() {
            connection.wake();
        }
    }
}
