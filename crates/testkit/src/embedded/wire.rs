//! The transport of an embedded channel.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use waterwheel_channel::driver::{COPIED_AT_ONCE, Detach, ReadPlan, Submit};
use waterwheel_channel::transport::{
    Outbound, Progress, STREAM_TYPES, Transport, TransportEvent, TransportWaker, Upcalls,
};
use waterwheel_channel::{Address, Msg, Target, Types};
use waterwheel_executor::Error;

/// What is between the test and the channel. Shared by both; each call locks it for a moment.
#[derive(Clone, Default)]
pub(super) struct Wire(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waker: Option<TransportWaker>,
    /// To be read.
    inbox: VecDeque<Msg>,
    finished: bool,
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
}

impl Wire {
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
        self.lock().inbox.extend(msgs);
    }

    pub(super) fn finish(&self) {
        self.lock().finished = true;
    }

    pub(super) fn fail(&self, error: Error) {
        self.lock().failure = Some(error);
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
        self.lock().write_failure = Some(error);
    }

    pub(super) fn clear_faults(&self) {
        let mut state = self.lock();
        (state.room, state.at_most, state.write_failure) = (None, None, None);
    }
}

impl State {
    /// What the channel is told next.
    fn next_event(&mut self) -> Option<TransportEvent> {
        if self.blocked && self.room != Some(0) {
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
            _ => None,
        }
    }

    fn write(&mut self, outbound: &mut Outbound, stream: bool) -> io::Result<Submit> {
        self.writes += 1;
        if let Some(error) = self.write_failure.take() {
            return Err(error);
        }
        let most = self.room.unwrap_or(usize::MAX).min(self.at_most.unwrap_or(usize::MAX));
        if most == 0 {
            self.blocked = true;
            return Ok(Submit::Full);
        }
        let taken = if stream && let Some(file) = outbound.file() {
            let copied = file.read(most.min(COPIED_AT_ONCE))?;
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

/// The channel's end of the wire.
pub(super) struct WireTransport {
    wire: Wire,
    unconnected: bool,
    stream: bool,
    peer: Option<Address>,
}

impl WireTransport {
    pub(super) fn new(wire: Wire, unconnected: bool, stream: bool) -> Self {
        Self { wire, unconnected, stream, peer: None }
    }
}

impl Transport for WireTransport {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn reads(&self) -> Types {
        if self.stream { Types::of::<Bytes>() } else { Types::Unknown }
    }

    fn accepts(&self) -> Types {
        if self.stream { STREAM_TYPES } else { Types::Unknown }
    }

    fn writes_stream(&self) -> bool {
        self.stream
    }

    fn register(&mut self, up: &Upcalls) -> Result<bool, Error> {
        self.wire.lock().waker = up.waker();
        Ok(!self.unconnected)
    }

    fn deregister(&mut self, _: &Upcalls) -> Result<(), Error> {
        let mut state = self.wire.lock();
        state.waker = None;
        state.round = None; // The channel itself tells that it is over.
        Ok(())
    }

    fn bind(&mut self, _: &Upcalls, _: Address) -> Result<(), Error> {
        self.unconnected = false;
        Ok(())
    }

    fn connect(&mut self, _: &Upcalls, to: &Target) -> Result<Progress, Error> {
        self.unconnected = false;
        self.peer = Some(to.remote.clone());
        Ok(Progress::Done)
    }

    fn shutdown(&mut self, _: &Upcalls, _: Shutdown) -> Result<(), Error> {
        Ok(())
    }

    fn set_read(&mut self, up: &Upcalls, plan: Option<ReadPlan>) {
        self.wire.lock().plan = plan;
        if plan.is_some() {
            up.wake();
        }
    }

    fn write(&mut self, _: &Upcalls, outbound: &mut Outbound) -> io::Result<Submit> {
        self.wire.lock().write(outbound, self.stream)
    }

    fn next_event(&mut self, _: &Upcalls) -> Option<TransportEvent> {
        self.wire.lock().next_event()
    }

    fn has_more(&self) -> bool {
        let state = self.wire.lock();
        state.plan.is_some() && (!state.inbox.is_empty() || state.finished)
    }

    fn close(&mut self, _: &Upcalls) -> Detach {
        let mut state = self.wire.lock();
        (state.plan, state.round, state.blocked) = (None, None, false);
        Detach::Done
    }

    fn peer_address(&self) -> Option<Address> {
        self.peer.clone()
    }

    fn unhandled(&mut self, msg: Msg) -> Option<Msg> {
        self.wire.lock().unhandled.push_back(msg);
        None
    }

    fn unhandled_error(&mut self, error: Error) -> Option<Error> {
        self.wire.lock().errors.push_back(error);
        None
    }
}
