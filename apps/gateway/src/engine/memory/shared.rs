//! The state of the memory engine, and how its entries get to the sink.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;

use waterwheel::channel::yield_now;
use waterwheel::executor::{Clock, Nanos};

use super::NAME;
use super::outgoing::{BATCH, Leader, Outgoing, OutgoingQueue, OutgoingTicket};
use crate::engine::limits::HistoryLimits;
use crate::engine::local::history::MemoryHistory;
use crate::engine::local::interest::InterestSet;
use crate::engine::local::presence::PresenceTable;
use crate::engine::position::Position;
use crate::engine::publication::NewPublication;
use crate::engine::remote::back_off::random;
use crate::engine::{
    EngineError, EngineFuture, EngineSink, HistoryPage, HistoryQuery, PresentClient,
};
use crate::topic::name::Topic;

/// The engine as its callers, its futures and its thread share it: all of them take the lock for a few operations, and call
/// nothing of others meanwhile. `for_thread` is notified when the thread is to lead or to end.
pub(super) struct MemoryShared {
    pub(super) clock: Clock,
    state: Mutex<MemoryState>,
    for_thread: Condvar,
}

/// The state that the lock guards.
pub(super) struct MemoryState {
    pub(super) history: MemoryHistory,
    pub(super) interest: InterestSet,
    pub(super) presence: PresenceTable,
    pub(super) outgoing: OutgoingQueue,
    has_thread: bool,
}

impl MemoryShared {
    pub(super) fn new(limits: HistoryLimits, sink: Arc<dyn EngineSink>, clock: Clock) -> Self {
        let state = MemoryState {
            history: MemoryHistory::new(limits, random()),
            interest: InterestSet::default(),
            presence: PresenceTable::new(limits.present_clients),
            outgoing: OutgoingQueue::new(sink),
            has_thread: false,
        };
        Self { clock, state: Mutex::new(state), for_thread: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, MemoryState> {
        // No method panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes. The future is ready when the last publication that the hub may want was handed on: so clients publish no
    /// faster than the hub takes.
    pub(super) fn publish(
        self: &Arc<Self>,
        publications: Vec<NewPublication>,
    ) -> EngineFuture<Vec<Result<Position, EngineError>>> {
        let now = self.clock.now();
        let mut state = self.lock();
        let before = state.outgoing.last_ticket();
        let results = publications.into_iter().map(|new| state.publish(new, now)).collect();
        let last = state.outgoing.last_ticket();
        let leads = state.outgoing.lead();
        drop(state);
        if leads {
            self.hand_on(Leader::Caller);
        }
        let ticket = if last == before { 0 } else { last };
        Box::pin(HandedOn {
            shared: Arc::clone(self),
            ticket,
            key: None,
            output: Some(Ok(results)),
        })
    }

    /// Changes the presence, and hands on what the change returns: topic, client, and whether it is present.
    pub(super) fn change_presence(
        self: &Arc<Self>,
        change: impl FnOnce(&mut MemoryState) -> Option<(Topic, PresentClient, bool)>,
    ) {
        let mut state = self.lock();
        if state.outgoing.is_closed() {
            return;
        }
        let changed = change(&mut state);
        if let Some((topic, member, is_present)) = changed
            && !state.outgoing.is_full()
        {
            state.outgoing.push(Outgoing::Presence { topic, member, is_present });
        }
        let leads = state.outgoing.lead();
        drop(state);
        if leads {
            self.hand_on(Leader::Caller);
        }
    }

    /// Answers a question to the history, in steps between which other threads may publish, and the calling loop does its
    /// other work: whoever asks for all topics again and again holds nobody up.
    pub(super) async fn read_history(
        self: Arc<Self>,
        query: HistoryQuery,
    ) -> Result<HistoryPage, EngineError> {
        let now = self.clock.now();
        let mut read = {
            let mut state = self.lock();
            state.check_open()?;
            state.history.expire(now);
            state.history.begin_read(&query)
        };
        while !self.lock().history.read_on(&query.filter, &mut read, now) {
            yield_now().await;
        }
        let has_more = read.cut_to_limit();
        let page = HistoryPage {
            publications: read.found,
            position: read.through,
            has_gap: read.has_gap,
            has_more,
        };
        // Everything in the page has a ticket by now.
        self.after_all(Ok(page)).await
    }

    /// Returns a future that is ready when everything up to now was handed on.
    pub(super) fn after_all<T>(self: &Arc<Self>, output: Result<T, EngineError>) -> HandedOn<T> {
        let ticket = self.lock().outgoing.last_ticket();
        HandedOn { shared: Arc::clone(self), ticket, key: None, output: Some(output) }
    }

    /// Refuses further calls. The sink is dropped when everything was handed on.
    pub(super) fn close(&self) {
        let released = self.lock().outgoing.close();
        self.for_thread.notify_all();
        drop(released);
    }

    /// Hands on what is queued, as the leader, until the queue is empty or another leads.
    fn hand_on(self: &Arc<Self>, role: Leader) {
        let mut batch = Vec::with_capacity(BATCH.min(8));
        let mut total = 0;
        loop {
            let sink = self.lock().outgoing.take_batch(&mut batch);
            let count = batch.len();
            total += count;
            for entry in batch.drain(..) {
                if let Some(sink) = &sink {
                    // The panic hook has told of the panic. The other entries are for other clients.
                    let _ = catch_unwind(AssertUnwindSafe(|| entry.hand_to(&**sink)));
                }
            }
            drop(sink);
            let mut state = self.lock();
            let finished = state.outgoing.finish_batch(count, total);
            let leader = state.outgoing.leader;
            let must_start = leader == Leader::Thread && !state.has_thread;
            state.has_thread |= must_start;
            let is_ended = state.outgoing.is_ended();
            drop(state);
            drop(finished.released);
            for waker in finished.wakers {
                waker.wake();
            }
            if is_ended || (leader == Leader::Thread && role == Leader::Caller) {
                self.for_thread.notify_all();
            }
            if must_start && !self.start_thread() {
                continue;
            }
            if leader != role {
                return;
            }
        }
    }

    /// Starts the thread. Returns false, with the caller the leader again, if that fails.
    fn start_thread(self: &Arc<Self>) -> bool {
        let shared = Arc::clone(self);
        let started = thread::Builder::new().name("memory-engine".to_owned()).spawn(move || {
            while shared.is_thread_to_lead() {
                shared.hand_on(Leader::Thread)
            }
        });
        if started.is_err() {
            let mut state = self.lock();
            state.has_thread = false;
            state.outgoing.leader = Leader::Caller;
        }
        started.is_ok()
    }

    /// Waits until the thread is the leader. Returns false when the thread is to end.
    fn is_thread_to_lead(&self) -> bool {
        let mut state = self.lock();
        while state.outgoing.leader != Leader::Thread {
            if state.outgoing.is_ended() {
                return false;
            }
            state = self.for_thread.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}

impl MemoryState {
    /// Fails after the engine was closed.
    pub(super) fn check_open(&self) -> Result<(), EngineError> {
        match self.outgoing.is_closed() {
            true => Err(unavailable("it is closed")),
            false => Ok(()),
        }
    }

    fn publish(&mut self, new: NewPublication, now: Nanos) -> Result<Position, EngineError> {
        self.check_open()?;
        if self.outgoing.is_full() {
            return Err(unavailable("too many publications wait to be handed on"));
        }
        let is_interesting = self.interest.may_match(&new.topic);
        let publication = self.history.append(new, now);
        let position = publication.position;
        if is_interesting {
            self.outgoing.push(Outgoing::Publication(publication));
        }
        Ok(position)
    }
}

/// The future of a call that is complete when its entries were handed on.
pub(super) struct HandedOn<T> {
    shared: Arc<MemoryShared>,
    ticket: OutgoingTicket,
    /// The number of the waker that is kept in the queue, if one is.
    key: Option<u64>,
    output: Option<Result<T, EngineError>>,
}

impl<T: Unpin> Future for HandedOn<T> {
    type Output = Result<T, EngineError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.ticket > 0 {
            let waker = context.waker().clone();
            let mut state = this.shared.lock();
            if !state.outgoing.is_handed_on(this.ticket) {
                let key = *this.key.get_or_insert_with(|| state.outgoing.new_key());
                let replaced = state.outgoing.wait((this.ticket, key), waker);
                drop(state);
                drop(replaced);
                return Poll::Pending;
            }
        }
        Poll::Ready(this.output.take().expect("a future is not polled after it was ready"))
    }
}

impl<T> Drop for HandedOn<T> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.shared.lock().outgoing.stop_waiting((self.ticket, key));
            drop(waker);
        }
    }
}

impl fmt::Debug for MemoryShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryShared").finish_non_exhaustive()
    }
}

fn unavailable(reason: &str) -> EngineError {
    EngineError::Unavailable { engine: NAME, reason: reason.to_owned() }
}
