//! The clients of a loop, and their subscriptions.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use crate::client_protocol::ClientProtocol;
use crate::engine::position::Position;
use crate::session::connection::ClientConnection;
use crate::session::delivery::Delivery;
use crate::session::limits::GatewayLimits;
use crate::topic::filter::TopicFilter;

/// A client, as the hub sees it.
pub(in crate::session) struct Subscriber {
    /// The id of the client, unique over all gateways.
    pub(in crate::session) id: Arc<str>,
    pub(in crate::session) protocol: ClientProtocol,
    pub(in crate::session) connection: Rc<dyn ClientConnection>,
    /// The walk that came here last: a publication is pushed once, however many subscriptions match it.
    pub(super) last_walk: Cell<u64>,
}

/// A subscription of a client.
pub(in crate::session) struct Subscription {
    pub(super) subscriber: Rc<Subscriber>,
    pub(super) wants_presence: bool,
    pub(super) phase: Cell<SubscriptionPhase>,
    /// The position up to which the client knows everything that the filter matches.
    pub(super) known_to: Cell<Position>,
    /// The publications that have come while the history is read.
    buffer: RefCell<RecoveryBuffer>,
    pub(super) list: Rc<SubscriberList>,
    /// The place in the list.
    index: Cell<usize>,
}

/// The state of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionPhase {
    /// The engine was asked. The client does not expect publications yet.
    Starting,
    /// The history is read; publications are kept meanwhile.
    Recovering,
    Live,
    Ended,
}

/// Publications that have come while the history is read.
#[derive(Default)]
pub(in crate::session) struct RecoveryBuffer {
    pub(in crate::session) deliveries: VecDeque<Arc<Delivery>>,
    /// The bytes of their payloads.
    bytes: usize,
    /// True if there were more than the limit, and the oldest were dropped.
    pub(in crate::session) has_lost: bool,
}

impl Subscription {
    pub(super) fn new(
        subscriber: Rc<Subscriber>,
        wants_presence: bool,
        phase: SubscriptionPhase,
        list: Rc<SubscriberList>,
    ) -> Self {
        Self {
            subscriber,
            wants_presence,
            phase: Cell::new(phase),
            known_to: Cell::new(Position { epoch: 0, sequence: 0 }),
            buffer: RefCell::default(),
            list,
            index: Cell::new(0),
        }
    }

    /// Returns the filter.
    pub(in crate::session) fn filter(&self) -> &TopicFilter {
        self.list.filter()
    }

    /// Delivers publications from now on, beginning after `known_to`. Returns what has come while the history was read.
    pub(in crate::session) fn begin(&self, known_to: Position) -> RecoveryBuffer {
        self.known_to.set(known_to);
        self.phase.set(SubscriptionPhase::Live);
        self.buffer.take()
    }

    /// Keeps a publication until the history is read: with those before it, no more than a subscription recovers.
    pub(super) fn keep(&self, delivery: &Arc<Delivery>, limits: &GatewayLimits) {
        let mut buffer = self.buffer.borrow_mut();
        buffer.bytes += payload_bytes(delivery);
        buffer.deliveries.push_back(delivery.clone());
        while buffer.deliveries.len() > limits.recovered || buffer.bytes > limits.recovered_bytes {
            let Some(oldest) = buffer.deliveries.pop_front() else { break };
            buffer.bytes -= payload_bytes(&oldest);
            buffer.has_lost = true;
        }
    }
}

fn payload_bytes(delivery: &Delivery) -> usize {
    delivery.publication().payload.len()
}

/// The subscriptions of a loop to one filter.
///
/// While they are walked over, the vector is outside of the cell: subscriptions that begin meanwhile are appended
/// afterwards, and those that end are marked, and removed afterwards.
pub(super) struct SubscriberList {
    filter: TopicFilter,
    entries: RefCell<Vec<Rc<Subscription>>>,
    /// The number of entries that are outside.
    walked: Cell<Option<usize>>,
    has_ended: Cell<bool>,
}

impl SubscriberList {
    pub(super) fn new(filter: TopicFilter) -> Rc<Self> {
        let entries = RefCell::default();
        Rc::new(Self { filter, entries, walked: Cell::new(None), has_ended: Cell::new(false) })
    }

    pub(super) fn filter(&self) -> &TopicFilter {
        &self.filter
    }

    pub(super) fn add(&self, subscription: Rc<Subscription>) {
        let mut entries = self.entries.borrow_mut();
        subscription.index.set(self.walked.get().unwrap_or(0) + entries.len());
        entries.push(subscription);
    }

    /// Removes a subscription. Returns true if the list is empty then.
    pub(super) fn remove(&self, subscription: &Subscription) -> bool {
        if subscription.phase.replace(SubscriptionPhase::Ended) == SubscriptionPhase::Ended {
            return false;
        }
        if self.walked.get().is_some() {
            self.has_ended.set(true);
            return false;
        }
        let index = subscription.index.get();
        let (removed, is_empty) = {
            let mut entries = self.entries.borrow_mut();
            let removed = entries.swap_remove(index);
            if let Some(moved) = entries.get(index) {
                moved.index.set(index);
            }
            (removed, entries.is_empty())
        };
        drop(removed);
        is_empty
    }

    /// Calls `visit` with each subscription that was there at the beginning. Returns true if the list is empty in the end.
    ///
    /// Walks over one list are not nested: only the dispatch of the loop walks.
    pub(super) fn walk(&self, mut visit: impl FnMut(&Rc<Subscription>)) -> bool {
        let walk = ListWalk { list: self, entries: self.entries.take() };
        self.walked.set(Some(walk.entries.len()));
        walk.entries.iter().for_each(&mut visit);
        drop(walk);
        self.entries.borrow().is_empty()
    }
}

/// A walk; the entries go back when it is dropped, after a panic too.
struct ListWalk<'a> {
    list: &'a SubscriberList,
    entries: Vec<Rc<Subscription>>,
}

impl Drop for ListWalk<'_> {
    fn drop(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.append(&mut self.list.entries.borrow_mut());
        let mut ended = Vec::new();
        if self.list.has_ended.take() {
            let is_ended = |each: &Rc<Subscription>| each.phase.get() == SubscriptionPhase::Ended;
            (ended, entries) = entries.into_iter().partition(is_ended);
            entries.iter().enumerate().for_each(|(index, each)| each.index.set(index));
        }
        self.list.walked.set(None);
        *self.list.entries.borrow_mut() = entries;
        // The connection of an ended subscription may be dropped with it: after the borrows.
        drop(ended);
    }
}
