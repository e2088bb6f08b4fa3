//! What is between an embedded channel and its other end.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use waterwheel_channel::driver::{FILE_COPY_CHUNK, ReadPlan, Submit};
use waterwheel_channel::local::LocalError;
use waterwheel_channel::transport::{Outbound, TransportContext, TransportEvent, TransportWaker};
use waterwheel_channel::{Msg, NewChannel};
use waterwheel_executor::Error;

/// As many bytes wait between two ends that are joined before the writer has to wait: the high water mark
/// of a channel by default, as between two local ones.
const BETWEEN: usize = 64 * 1024;

/// What is between a channel and its other end: the test, or another channel. Shared by both; each call
/// locks it for a moment, and no other one meanwhile. Wakers are called, and what is not delivered is
/// dropped, when it is unlocked.
///
/// Of two channels that are joined each has its own: an end puts what it writes into the inbox of the
/// other, and gives the other room for what it has read. Who finds no room notes it in the same critical
/// section, so that whoever gives some sees the note.
#[derive(Clone, Default)]
pub(super) struct Wire(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waker: Option<TransportWaker>,
    /// To be read.
    inbox: VecDeque<Msg>,
    finished: bool,
    /// That it has finished was told to a channel that does not read.
    finish_told: bool,
    failure: Option<Error>,
    plan: Option<ReadPlan>,
    /// How many reads this round may still give; `None` between rounds.
    round: Option<u32>,
    outbox: VecDeque<Msg>,
    /// How often the channel has written.
    writes: usize,
    unhandled: VecDeque<Msg>,
    errors: VecDeque<Error>,
    /// How much may still be taken; `None`: everything.
    room: Option<usize>,
    at_most: Option<usize>,
    write_failure: Option<io::Error>,
    /// A write has found no room.
    blocked: bool,
    /// The other end has gone: nothing more can be written.
    gone: bool,
    /// The channel sends no more.
    ended: bool,
    /// The channel is closed.
    closed: bool,
}

impl Wire {
    /// To be joined with another one.
    pub(super) fn bounded() -> Self {
        let wire = Self::default();
        wire.set_room(BETWEEN);
        wire
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        let waker = self.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn send(&self, msgs: impl IntoIterator<Item = Msg>) {
        // One by one: the iterator may be the user's.
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

    /// The other end has gone.
    pub(super) fn lose_peer(&self) {
        {
            let mut state = self.lock();
            (state.gone, state.finished) = (true, true);
        }
        self.wake();
    }

    // For the channel's end.

    /// The channel is on its loop, and looks for what has happened until now.
    pub(super) fn attach(&self, up: &TransportContext) {
        let before = {
            let mut state = self.lock();
            state.finish_told = false;
            std::mem::replace(&mut state.waker, up.waker())
        };
        drop(before);
        up.wake();
    }

    pub(super) fn detach(&self) {
        let mut state = self.lock();
        state.round = None; // The channel itself tells that it is over.
        let waker = state.waker.take();
        drop(state);
        drop(waker);
    }

    pub(super) fn set_read(&self, up: &TransportContext, plan: Option<ReadPlan>) {
        let is_to_look = {
            let mut state = self.lock();
            state.plan = plan;
            state.blocked || state.finished && !state.finish_told
        };
        // Who does not read does not learn by reading that the other end has finished, or has gone.
        if plan.is_some() || is_to_look {
            up.wake();
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

    /// The channel sends no more.
    pub(super) fn end(&self) {
        self.lock().ended = true;
    }

    /// The channel is closed; what it has not read stays. Whether it was not yet.
    pub(super) fn close(&self) -> bool {
        let mut state = self.lock();
        (state.plan, state.round, state.blocked, state.ended) = (None, None, false, true);
        !std::mem::replace(&mut state.closed, true)
    }

    /// What the channel has not read, for the caller to drop.
    #[must_use]
    pub(super) fn take_unread(&self) -> VecDeque<Msg> {
        std::mem::take(&mut self.lock().inbox)
    }

    // For the channel's end, of the wire of another channel that it is joined with.

    /// Takes over what the channel of this wire has written, to be read by the one of another. Returns what
    /// nobody will read, for the caller to drop.
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

    /// So many bytes were read: there is room for so many others. Who waits for room goes on when half
    /// of all is there.
    pub(super) fn give_room(&self, bytes: usize) {
        let goes_on = {
            let mut state = self.lock();
            state.room = state.room.map(|room| room + bytes);
            state.blocked && state.room.is_none_or(|room| room >= BETWEEN / 2)
        };
        if goes_on {
            self.wake();
        }
    }

    // Of the wire of a server: what it reads are channels.

    /// Lets a channel wait to be accepted, if fewer than that do.
    pub(super) fn offer(&self, backlog: usize, new: impl FnOnce() -> NewChannel) -> OfferOutcome {
        {
            let mut state = self.lock();
            if state.closed {
                return OfferOutcome::Closed;
            }
            if state.inbox.len() >= backlog {
                return OfferOutcome::BacklogFull;
            }
            state.inbox.push_back(Msg::new(new()));
        }
        self.wake();
        OfferOutcome::Queued
    }
}

/// What became of a channel that was offered to a server.
pub(super) enum OfferOutcome {
    /// It waits to be accepted.
    Queued,
    /// As many wait as may.
    BacklogFull,
    /// The server is closed.
    Closed,
}

impl State {
    /// What the channel is told next.
    fn next_event(&mut self) -> Option<TransportEvent> {
        // What the other end has said before it went is heard first, by one who listens.
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
        let most = self.room.unwrap_or(usize::MAX).min(self.at_most.unwrap_or(usize::MAX));
        if most == 0 {
            self.blocked = true;
            return Ok(Submit::Full);
        }
        let taken = if stream && let Some(file) = outbound.file() {
            let copied = file.read(most.min(FILE_COPY_CHUNK))?;
            let taken = copied.len();
            self.outbox.push_back(copied.into());
            outbound.wrote(taken);
            taken
        } else if stream {
            self.take_bytes(outbound, most)
        } else {
            let taken = std::iter::from_fn(|| outbound.take()).take(most);
            let before = self.outbox.len();
            self.outbox.extend(taken);
            self.outbox.len() - before
        };
        self.room = self.room.map(|room| room - taken);
        Ok(Submit::Done(taken))
    }

    /// Chunk by chunk, the last one in part if need be.
    fn take_bytes(&mut self, outbound: &mut Outbound, most: usize) -> usize {
        let mut left = most;
        for chunk in outbound.bytes().chunks() {
            let part: Bytes = chunk.slice(..chunk.len().min(left));
            left -= part.len();
            self.outbox.push_back(part.into());
            if left == 0 {
                break;
            }
        }
        outbound.wrote(most - left);
        most - left
    }
}
