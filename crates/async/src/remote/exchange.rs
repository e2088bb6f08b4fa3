//! The state that the handles of a channel on other threads share with the relay on its loop.
//!
//! ```text
//!   handles, any thread                              relay, on the loop
//!   ───────────────────                              ──────────────────
//!   poll_round: takes the round, or wants one ─┐ ┌─► take_orders: what is wanted, the messages to write
//!   push: queues a message                     ├─┤   deliver_round
//!   poll_flush: awaits a flush                 │ │   finish_writes, finish_flush
//!   drop_reader, drop_writer ──────────────────┘ └── end
//! ```
//!
//! Rules:
//! 1. Everything is under one lock. Messages, errors and wakers are the user's: they are cloned, called and dropped
//!    outside of it.
//! 2. The relay leaves its waker in [`take_orders`](Exchange::take_orders), under the same lock under which it looks.
//!    A handle that wants something takes the waker out: one wake, one command, until the relay has looked again.
//! 3. A handle that waits leaves its waker in the call that finds nothing; the relay takes it out when there is
//!    something.
//! 4. The relay calls [`end`](Exchange::end) however it is dropped, and from then on nothing waits.

use std::collections::VecDeque;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use waterwheel_channel::Msg;
use waterwheel_executor::Error;

use crate::bridge::round_queue::RoundQueue;

/// The number of bytes between a writer and the loop from which a write waits, by
/// [`size_hint`](waterwheel_channel::Message::size_hint): a default high-water mark.
pub(crate) const MAX_QUEUED_BYTES: usize = 64 * 1024;

/// The number of messages between a writer and the loop from which a write waits: messages may have no size.
pub(crate) const MAX_QUEUED_MESSAGES: usize = 1024;

/// The state that handles and relay share.
pub(super) struct Exchange<In>(Mutex<ExchangeState<In>>);

struct ExchangeState<In> {
    // The input.
    inbound: RoundQueue<In>,
    is_round_wanted: bool,
    is_input_over: bool,
    reader: Option<Waker>,
    has_reader: bool,
    // The output.
    outbound: VecDeque<Msg>,
    outbound_bytes: usize,
    /// True if a queued message is to be flushed.
    is_flush_requested: bool,
    /// True if the writer waits for a flush, not for room.
    is_flush_awaited: bool,
    /// True if something was queued since the last flush that was completed.
    is_unflushed: bool,
    /// True while the channel is not writable.
    is_channel_full: bool,
    write_error: Option<Error>,
    writer: Option<Waker>,
    has_writer: bool,
    // Both.
    is_draining: bool,
    drain_waiter: Option<Waker>,
    /// The error of the calls after the end of the relay.
    end: Option<Error>,
    relay: Option<Waker>,
}

/// The wishes of the handles, as the relay finds them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orders {
    pub(super) is_round_wanted: bool,
    pub(super) is_flush_requested: bool,
    pub(super) is_flush_awaited: bool,
    pub(super) has_reader: bool,
    pub(super) has_writer: bool,
}

impl<In> Exchange<In> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(ExchangeState {
            inbound: RoundQueue::default(),
            is_round_wanted: false,
            is_input_over: false,
            reader: None,
            has_reader: true,
            outbound: VecDeque::new(),
            outbound_bytes: 0,
            is_flush_requested: false,
            is_flush_awaited: false,
            is_unflushed: false,
            is_channel_full: false,
            write_error: None,
            writer: None,
            has_writer: true,
            is_draining: false,
            drain_waiter: None,
            end: None,
            relay: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, ExchangeState<In>> {
        // Nothing panics under the lock.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    // Called by the handles.

    /// Waits for a round of messages, and takes it. `round` is empty at the end of the input.
    pub(super) fn poll_round(
        &self,
        context: &mut Context<'_>,
        round: &mut RoundQueue<In>,
    ) -> Poll<()> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        round.take_from(&mut state.inbound);
        if !round.is_empty() || state.is_input_over {
            return Poll::Ready(());
        }
        let before = state.reader.replace(waker);
        let is_new = !std::mem::replace(&mut state.is_round_wanted, true);
        let relay = if is_new { state.relay.take() } else { None };
        drop(state);
        drop(before);
        wake(relay);
        Poll::Pending
    }

    /// Waits until a message can be queued.
    pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        if let Some(error) = state.refusal() {
            return Poll::Ready(Err(error));
        }
        if state.has_room() {
            return Poll::Ready(Ok(()));
        }
        state.is_flush_awaited = false;
        let before = state.writer.replace(waker);
        // The relay of a full channel waits for that.
        let relay = if state.is_channel_full { None } else { state.relay.take() };
        drop(state);
        drop(before);
        wake(relay);
        Poll::Pending
    }

    /// Queues a message. Without `flush` the loop is not woken for it.
    ///
    /// # Errors
    /// A message that was queued before has failed, or the relay has ended.
    pub(super) fn push(&self, message: Msg, flush: bool) -> Result<(), Error> {
        let size = message.size_hint();
        let mut state = self.lock();
        if let Some(error) = state.refusal() {
            drop(state);
            drop(message);
            return Err(error);
        }
        state.outbound.push_back(message);
        state.outbound_bytes = state.outbound_bytes.saturating_add(size);
        state.is_unflushed = true;
        state.is_flush_requested |= flush;
        let relay = if flush && !state.is_channel_full { state.relay.take() } else { None };
        drop(state);
        wake(relay);
        Ok(())
    }

    /// Waits until every message that was queued was handed to the transport.
    pub(super) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        if let Some(error) = state.write_error.take() {
            return Poll::Ready(Err(error));
        }
        if !state.is_unflushed {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &state.end {
            return Poll::Ready(Err(error.clone()));
        }
        let before = state.writer.replace(waker);
        let is_new = !std::mem::replace(&mut state.is_flush_awaited, true);
        let relay = if is_new { state.relay.take() } else { None };
        drop(state);
        drop(before);
        wake(relay);
        Poll::Pending
    }

    /// Waits until the loop begins to drain. After the end of the relay that never comes: the waiting is over too.
    pub(super) fn poll_draining(&self, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        if state.is_draining || state.end.is_some() {
            return Poll::Ready(());
        }
        let before = state.drain_waiter.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }

    pub(super) fn is_draining(&self) -> bool {
        self.lock().is_draining
    }

    pub(super) fn drop_reader(&self) {
        let mut state = self.lock();
        state.has_reader = false;
        state.is_round_wanted = false;
        let unread = std::mem::take(&mut state.inbound);
        let wakers = (state.reader.take(), state.drain_waiter.take());
        let relay = state.relay.take();
        drop(state);
        drop((unread, wakers));
        wake(relay);
    }

    pub(super) fn drop_writer(&self) {
        let mut state = self.lock();
        state.has_writer = false;
        let (writer, relay) = (state.writer.take(), state.relay.take());
        drop(state);
        drop(writer);
        wake(relay);
    }

    // Called by the relay.

    /// Takes what the handles want. The messages to write are moved to `batch` if that is empty.
    pub(super) fn take_orders(&self, relay: &Waker, batch: &mut VecDeque<Msg>) -> Orders {
        let relay = relay.clone();
        let mut state = self.lock();
        let before = state.relay.replace(relay);
        let mut is_flush_requested = false;
        if batch.is_empty() {
            std::mem::swap(&mut state.outbound, batch);
            state.outbound_bytes = 0;
            is_flush_requested = std::mem::take(&mut state.is_flush_requested);
        }
        let orders = Orders {
            is_round_wanted: state.is_round_wanted,
            is_flush_requested,
            is_flush_awaited: state.is_flush_awaited,
            has_reader: state.has_reader,
            has_writer: state.has_writer,
        };
        drop(state);
        drop(before);
        orders
    }

    /// Delivers the round that is wanted. `round` is exchanged with an empty queue.
    pub(super) fn deliver_round(&self, round: &mut RoundQueue<In>, is_over: bool) {
        let mut state = self.lock();
        if state.has_reader {
            state.inbound.take_from(round);
        }
        state.is_round_wanted = false;
        state.is_input_over = is_over;
        let reader = state.reader.take();
        drop(state);
        while round.pop().is_some() {} // The reader is gone.
        wake(reader);
    }

    /// Tells that the batch was written, or, if the channel is full, a part of it. Returns true if there is more.
    pub(super) fn finish_writes(&self, error: Option<Error>, is_channel_full: bool) -> bool {
        let mut state = self.lock();
        let has_failed = error.is_some();
        let untold = state.keep_error(error);
        state.is_channel_full = is_channel_full;
        let is_awaited = has_failed || (state.has_room() && !state.is_flush_awaited);
        let writer = if is_awaited { state.writer.take() } else { None };
        let has_more = !is_channel_full && !state.outbound.is_empty();
        drop(state);
        drop(untold);
        wake(writer);
        has_more
    }

    /// Tells that everything was flushed that was taken, with the failure of a write.
    pub(super) fn finish_flush(&self, error: Option<Error>) {
        let mut state = self.lock();
        let has_failed = error.is_some();
        let untold = state.keep_error(error);
        let is_flushed = state.outbound.is_empty();
        if is_flushed {
            state.is_unflushed = false;
            state.is_flush_awaited = false;
        }
        let writer = if is_flushed || has_failed { state.writer.take() } else { None };
        drop(state);
        drop(untold);
        wake(writer);
    }

    pub(super) fn begin_drain(&self) {
        let mut state = self.lock();
        state.is_draining = true;
        let waiter = state.drain_waiter.take();
        drop(state);
        wake(waiter);
    }

    /// Ends the exchange, with the last messages: from now on nothing waits. `is_flushed` is true if every message
    /// that was taken was handed to the transport.
    pub(super) fn end(&self, error: Error, rest: &mut RoundQueue<In>, is_flushed: bool) {
        let mut state = self.lock();
        if state.has_reader {
            state.inbound.take_from(rest);
        }
        state.is_input_over = true;
        let unwritten = std::mem::take(&mut state.outbound);
        state.is_unflushed &= !(is_flushed && unwritten.is_empty());
        let before = state.end.replace(error);
        let relay = state.relay.take();
        let waiting = [state.reader.take(), state.writer.take(), state.drain_waiter.take()];
        drop(state);
        waiting.into_iter().for_each(wake);
        drop((before, relay, unwritten));
    }
}

impl<In> ExchangeState<In> {
    fn has_room(&self) -> bool {
        !self.is_channel_full
            && self.outbound_bytes < MAX_QUEUED_BYTES
            && self.outbound.len() < MAX_QUEUED_MESSAGES
    }

    /// Returns the error of a write: a message that was queued before has failed, or nothing is written any more.
    fn refusal(&mut self) -> Option<Error> {
        self.write_error.take().or_else(|| self.end.clone())
    }

    /// Keeps the first error for the writer. Returns one that is not kept, to be dropped outside of the lock.
    #[must_use]
    fn keep_error(&mut self, error: Option<Error>) -> Option<Error> {
        if self.write_error.is_some() {
            return error;
        }
        self.write_error = error;
        None
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
