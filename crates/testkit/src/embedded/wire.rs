//! The queues and state between an embedded channel and its other end.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use waterwheel_channel::driver::{FILE_COPY_CHUNK, ReadPlan, Submit};
use waterwheel_channel::local::LocalError;
use waterwheel_channel::transport::{Outbound, TransportContext, TransportEvent, TransportWaker};
use waterwheel_channel::{Msg, NewChannel};
use waterwheel_executor::Error;

/// How many unread bytes one end of a connected pair may write before it has to wait: a channel's default high-water
/// mark, as between two local channels.
const MAX_UNREAD: usize = 64 * 1024;

/// The queues between a channel and its other end, which is the test or another channel. Both ends share the wire;
/// each call locks it briefly and holds no other lock meanwhile. Wakers are called and undelivered messages are dropped
/// after it is unlocked.
///
/// Each channel of a connected pair has its own wire: an end moves what it writes into the inbox of the other, and
/// gives back room for what it has read. A writer that finds no room sets `blocked` in the same critical section, so
/// that the reader that gives room back sees it.
#[derive(Clone, Default)]
pub(super) struct Wire(Arc<Mutex<WireState>>);

#[derive(Default)]
struct WireState {
    waker: Option<TransportWaker>,
    /// Messages that the channel has not read.
    inbox: VecDeque<Msg>,
    finished: bool,
    /// True once `PeerFinished` has been delivered to a channel that does not read.
    finish_told: bool,
    failure: Option<Error>,
    plan: Option<ReadPlan>,
    /// The number of reads left in this round; `None` between rounds.
    round: Option<u32>,
    outbox: VecDeque<Msg>,
    /// How often the channel has written.
    writes: usize,
    unhandled: VecDeque<Msg>,
    errors: VecDeque<Error>,
    /// How many bytes or messages may still be written; `None` means no limit.
    room: Option<usize>,
    at_most: Option<usize>,
    write_failure: Option<io::Error>,
    /// True while a write waits for room.
    blocked: bool,
    /// True once the other end has been dropped: writes fail.
    gone: bool,
    /// True once the channel has shut down its output.
    ended: bool,
    /// True once the channel is closed.
    closed: bool,
}

impl Wire {
    /// Creates a wire of a connected pair, with room for `MAX_UNREAD` bytes.
    pub(super) fn bounded() -> Self {
        let wire = Self::default();
        wire.set_room(MAX_UNREAD);
        wire
    }

    fn lock(&self) -> MutexGuard<'_, WireState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        let waker = self.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn send(&self, msgs: impl IntoIterator<Item = Msg>) {
        // Locks for each message, because the iterator may run user code.
        msgs.into_iter().for_each(|msg| self.lock().inbox.push_back(msg));
    }

    pub(super) fn finish(&self) {
        self.lock().finished = true;
    }

    pub(super) fn fail(&self, error: Error) {
        let before = self.lock().failure.replace(error);
        drop(before);
    }

    pub(super) fn unread(&self) -> usize {
        self.lock().inbox.len()
    }

    pub(super) fn take_outbound(&self) -> Option<Msg> {
        self.lock().outbox.pop_front()
    }

    pub(super) fn writes(&self) -> usize {
        self.lock().writes
    }

    pub(super) fn take_inbound(&self) -> Option<Msg> {
        self.lock().unhandled.pop_front()
    }

    pub(super) fn take_error(&self) -> Option<Error> {
        self.lock().errors.pop_front()
    }

    pub(super) fn set_room(&self, room: usize) {
        self.lock().room = Some(room);
    }

    pub(super) fn short_writes(&self, at_most: usize) {
        self.lock().at_most = Some(at_most.max(1));
    }

    pub(super) fn fail_write(&self, error: io::Error) {
        let before = self.lock().write_failure.replace(error);
        drop(before);
    }

    pub(super) fn clear_faults(&self) {
        let mut state = self.lock();
        (state.room, state.at_most) = (None, None);
        let failure = state.write_failure.take();
        drop(state);
        drop(failure);
    }

    pub(super) fn is_ended(&self) -> bool {
        self.lock().ended
    }

    /// Records that the other end has been dropped.
    pub(super) fn lose_peer(&self) {
        {
            let mut state = self.lock();
            (state.gone, state.finished) = (true, true);
        }
        self.wake();
    }

    // For the channel's end.

    /// Registers the channel's waker, and wakes it for events that happened before.
    pub(super) fn attach(&self, context: &TransportContext) {
        let before = {
            let mut state = self.lock();
            state.finish_told = false;
            std::mem::replace(&mut state.waker, context.waker())
        };
        drop(before);
        context.wake();
    }

    pub(super) fn detach(&self) {
        let mut state = self.lock();
        state.round = None; // The channel itself completes the round.
        let waker = state.waker.take();
        drop(state);
        drop(waker);
    }

    pub(super) fn set_read(&self, context: &TransportContext, plan: Option<ReadPlan>) {
        let must_look = {
            let mut state = self.lock();
            state.plan = plan;
            state.blocked || state.finished && !state.finish_told
        };
        // With reads off, the channel is woken too: no read tells it that the other end has finished or been dropped.
        if plan.is_some() || must_look {
            context.wake();
        }
    }

    pub(super) fn next_event(&self) -> Option<TransportEvent> {
        self.lock().next_event()
    }

    pub(super) fn has_more(&self) -> bool {
        let state = self.lock();
        state.plan.is_some() && (!state.inbox.is_empty() || state.finished)
    }

    pub(super) fn write(&self, outbound: &mut Outbound, stream: bool) -> io::Result<Submit> {
        self.lock().write(outbound, stream)
    }

    pub(super) fn keep_unhandled(&self, msg: Msg) {
        self.lock().unhandled.push_back(msg);
    }

    pub(super) fn keep_error(&self, error: Error) {
        self.lock().errors.push_back(error);
    }

    /// Records that the channel sends no more.
    pub(super) fn end(&self) {
        self.lock().ended = true;
    }

    /// Records that the channel is closed; its unread messages stay. Returns true if it was open.
    pub(super) fn close(&self) -> bool {
        let mut state = self.lock();
        (state.plan, state.round, state.blocked, state.ended) = (None, None, false, true);
        !std::mem::replace(&mut state.closed, true)
    }

    /// Takes the messages that the channel has not read, for the caller to drop.
    #[must_use]
    pub(super) fn take_unread(&self) -> VecDeque<Msg> {
        std::mem::take(&mut self.lock().inbox)
    }

    // Called by a channel's end on the wire of the channel it is connected with.

    /// Moves what this wire's channel has written into the inbox of `other`. Returns the messages that a closed `other`
    /// does not take, for the caller to drop.
    #[must_use]
    pub(super) fn carry_to(&self, other: &Wire) -> VecDeque<Msg> {
        let carried = std::mem::take(&mut self.lock().outbox);
        let undelivered = {
            let mut state = other.lock();
            if state.closed {
                carried
            } else {
                state.inbox.extend(carried);
                VecDeque::new()
            }
        };
        other.wake();
        undelivered
    }

    /// Gives back room for `bytes` that were read. A blocked writer is woken when half of the room is free.
    pub(super) fn give_room(&self, bytes: usize) {
        let wakes_writer = {
            let mut state = self.lock();
            state.room = state.room.map(|room| room + bytes);
            state.blocked && state.room.is_none_or(|room| room >= MAX_UNREAD / 2)
        };
        if wakes_writer {
            self.wake();
        }
    }

    // Called on the wire of a server, which reads accepted channels.

    /// Queues a channel to be accepted, if fewer than `backlog` are queued.
    pub(super) fn offer(&self, backlog: usize, new: impl FnOnce() -> NewChannel) -> BacklogOutcome {
        {
            let mut state = self.lock();
            if state.closed {
                return BacklogOutcome::Closed;
            }
            if state.inbox.len() >= backlog {
                return BacklogOutcome::BacklogFull;
            }
            state.inbox.push_back(Msg::new(new()));
        }
        self.wake();
        BacklogOutcome::Queued
    }
}

/// The outcome of offering a channel to a server.
pub(super) enum BacklogOutcome {
    /// The channel is queued to be accepted.
    Queued,
    /// The backlog is full.
    BacklogFull,
    /// The server is closed.
    Closed,
}

impl WireState {
    /// Returns the next event for the channel.
    fn next_event(&mut self) -> Option<TransportEvent> {
        // While the channel reads, the messages sent before the other end was dropped are delivered first.
        let lost = self.gone && self.plan.is_none();
        if self.blocked && (self.room != Some(0) || lost) {
            self.blocked = false;
            return Some(TransportEvent::Wrote(0));
        }
        if let Some(error) = self.failure.take() {
            return Some(TransportEvent::Failed(error));
        }
        match (self.plan, self.round) {
            (Some(plan), None) if !self.inbox.is_empty() => {
                self.round = Some(plan.max_reads);
                self.next_event()
            }
            (Some(_), Some(left)) if left > 0 && !self.inbox.is_empty() => {
                self.round = Some(left - 1);
                self.inbox.pop_front().map(TransportEvent::Read)
            }
            (_, Some(_)) => {
                self.round = None;
                Some(TransportEvent::ReadComplete)
            }
            (Some(_), None) if std::mem::take(&mut self.finished) => Some(TransportEvent::Eof),
            (None, None) if self.finished && !std::mem::replace(&mut self.finish_told, true) => {
                Some(TransportEvent::PeerFinished)
            }
            _ => None,
        }
    }

    fn write(&mut self, outbound: &mut Outbound, stream: bool) -> io::Result<Submit> {
        self.writes += 1;
        if let Some(error) = self.write_failure.take() {
            return Err(error);
        }
        if self.gone {
            return Err(LocalError::PeerClosed.into());
        }
        let limit = self.room.unwrap_or(usize::MAX).min(self.at_most.unwrap_or(usize::MAX));
        if limit == 0 {
            self.blocked = true;
            return Ok(Submit::Full);
        }
        let taken = if stream && let Some(file) = outbound.file() {
            let copied = file.read(limit.min(FILE_COPY_CHUNK))?;
            let taken = copied.len();
            self.outbox.push_back(copied.into());
            outbound.wrote(taken);
            taken
        } else if stream {
            self.take_bytes(outbound, limit)
        } else {
            let taken = std::iter::from_fn(|| outbound.take()).take(limit);
            let before = self.outbox.len();
            self.outbox.extend(taken);
            self.outbox.len() - before
        };
        self.room = self.room.map(|room| room - taken);
        Ok(Submit::Done(taken))
    }

    /// Takes up to `limit` bytes, chunk by chunk, the last one in part if needed.
    fn take_bytes(&mut self, outbound: &mut Outbound, limit: usize) -> usize {
        let mut left = limit;
        for chunk in outbound.bytes().chunks() {
            let part: Bytes = chunk.slice(..chunk.len().min(left));
            left -= part.len();
            self.outbox.push_back(part.into());
            if left == 0 {
                break;
            }
        }
        outbound.wrote(limit - left);
        limit - left
    }
}
