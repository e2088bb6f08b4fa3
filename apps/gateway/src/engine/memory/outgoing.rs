//! The entries that wait to be handed to the sink, and the callers that wait for it.
//!
//! One thread at a time hands on, outside of the lock, so that the sink is called in the order in which the queue was filled.
//! It is the thread that publishes. One that would hand on the publications of other threads for long leaves the rest to
//! a thread of the engine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use crate::engine::publication::Publication;
use crate::engine::{EngineSink, PresentClient};
use crate::topic::name::Topic;

/// Entries that are taken out of the queue at once.
pub(super) const BATCH: usize = 64;

/// Entries that a caller of the engine hands on before it leaves the others to the thread of the engine.
const OF_A_CALLER: usize = 4 * BATCH;

/// Entries that may wait. The futures of publishers wait for their entries, so as many wait as clients publish at a time.
const MAX_ENTRIES: usize = 16_384;

/// Bytes that may wait, in addition to one batch.
const MAX_BYTES: usize = 64 << 20;

/// An entry for the sink.
#[derive(Debug)]
pub(super) enum Outgoing {
    Publication(Arc<Publication>),
    Presence { topic: Topic, member: PresentClient, is_present: bool },
}

/// The thread that hands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leader {
    /// No thread does: the queue is empty.
    Nobody,
    /// A thread that has called the engine.
    Caller,
    /// The thread of the engine.
    Thread,
}

/// The place of an entry in the queue, counted from the first ever.
pub(super) type OutgoingTicket = u64;

/// The key of a waker: the entry that it waits for, and a number that makes it unique.
pub(super) type WaiterKey = (OutgoingTicket, u64);

/// The queue of a sink. All threads use it under the lock of the engine.
#[derive(Debug)]
pub(super) struct OutgoingQueue {
    sink: Option<Arc<dyn EngineSink>>,
    pub(super) leader: Leader,
    entries: VecDeque<Outgoing>,
    bytes: usize,
    queued: OutgoingTicket,
    handed_on: OutgoingTicket,
    waiters: BTreeMap<WaiterKey, Waker>,
    last_key: u64,
    is_closed: bool,
}

/// The duties of a leader after a batch. The wakers and the sink are used and dropped without the lock.
#[derive(Debug, Default)]
pub(super) struct AfterBatch {
    pub(super) wakers: Vec<Waker>,
    pub(super) released: Option<Arc<dyn EngineSink>>,
}

impl OutgoingQueue {
    pub(super) fn new(sink: Arc<dyn EngineSink>) -> Self {
        Self {
            sink: Some(sink),
            leader: Leader::Nobody,
            entries: VecDeque::new(),
            bytes: 0,
            queued: 0,
            handed_on: 0,
            waiters: BTreeMap::new(),
            last_key: 0,
            is_closed: false,
        }
    }

    /// True if nothing may be added.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= MAX_ENTRIES || self.bytes >= MAX_BYTES
    }

    /// Returns the number of entries that wait.
    pub(super) fn len(&self) -> usize {
        (self.queued - self.handed_on) as usize
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, entry: Outgoing) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        self.queued += 1;
    }

    /// Returns the ticket of the last entry.
    pub(super) fn last_ticket(&self) -> OutgoingTicket {
        self.queued
    }

    /// True if the entry with this ticket was handed on, and all before it.
    pub(super) fn is_handed_on(&self, ticket: OutgoingTicket) -> bool {
        self.handed_on >= ticket
    }

    /// True if the calling thread is to hand on what waits; it is the leader from then on.
    pub(super) fn lead(&mut self) -> bool {
        let may_lead = self.leader == Leader::Nobody && !self.entries.is_empty();
        if may_lead {
            self.leader = Leader::Caller;
        }
        may_lead
    }

    /// Moves the next entries into `batch`, for the leader, and returns the sink.
    pub(super) fn take_batch(&mut self, batch: &mut Vec<Outgoing>) -> Option<Arc<dyn EngineSink>> {
        let count = self.entries.len().min(BATCH);
        batch.extend(self.entries.drain(..count));
        self.bytes -= batch.iter().map(Outgoing::bytes).sum::<usize>();
        if self.entries.is_empty() {
            self.entries.shrink_to(BATCH);
        }
        self.sink.clone()
    }

    /// Notes that the leader has handed on a batch, of `total` entries in this call. The leader has changed if it is to stop.
    pub(super) fn finish_batch(&mut self, count: usize, total: usize) -> AfterBatch {
        self.handed_on += count as u64;
        let later = self.waiters.split_off(&(self.handed_on + 1, 0));
        let ready = std::mem::replace(&mut self.waiters, later);
        if self.entries.is_empty() {
            self.leader = Leader::Nobody;
        } else if self.leader == Leader::Caller && total >= OF_A_CALLER {
            self.leader = Leader::Thread;
        }
        AfterBatch { wakers: ready.into_values().collect(), released: self.release() }
    }

    /// Refuses further entries, and returns the sink if it is not needed any more.
    pub(super) fn close(&mut self) -> Option<Arc<dyn EngineSink>> {
        self.is_closed = true;
        self.release()
    }

    /// True after [`close`](Self::close).
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// True if nothing will be handed on any more.
    pub(super) fn is_ended(&self) -> bool {
        self.is_closed && self.leader == Leader::Nobody
    }

    /// Returns a number for the key of a waiter.
    pub(super) fn new_key(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
    }

    /// Wakes `waker` when its entry was handed on. Returns the waker that this one replaces.
    pub(super) fn wait(&mut self, key: WaiterKey, waker: Waker) -> Option<Waker> {
        self.waiters.insert(key, waker)
    }

    /// Removes a waker.
    pub(super) fn stop_waiting(&mut self, key: WaiterKey) -> Option<Waker> {
        self.waiters.remove(&key)
    }

    fn release(&mut self) -> Option<Arc<dyn EngineSink>> {
        if self.is_ended() { self.sink.take() } else { None }
    }
}

impl Outgoing {
    fn bytes(&self) -> usize {
        match self {
            Outgoing::Publication(publication) => publication.payload.len(),
            Outgoing::Presence { .. } => 0,
        }
    }

    /// Gives the entry to the sink.
    pub(super) fn hand_to(self, sink: &dyn EngineSink) {
        match self {
            Outgoing::Publication(publication) => sink.on_publication(publication),
            Outgoing::Presence { topic, member, is_present } => {
                sink.on_presence(&topic, &member, is_present);
            }
        }
    }
}
