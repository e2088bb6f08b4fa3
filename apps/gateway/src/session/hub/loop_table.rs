//! The clients of one loop and their subscriptions; the walk over the receivers of a publication.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use waterwheel::channel::{LocalLoop, yield_now};
use waterwheel::executor::LoopLocal;

use super::Hub;
use super::filter_table::FilterTable;
use super::loop_inbox::{InboxItem, LoopInbox};
use super::subscriber::{Subscriber, SubscriberList, Subscription, SubscriptionPhase};
use crate::client_protocol::ClientProtocol;
use crate::engine::PresentClient;
use crate::engine::position::Position;
use crate::error_code::GatewayError;
use crate::metrics::counters::ClientCounters;
use crate::session::connection::ClientConnection;
use crate::session::delivery::Delivery;
use crate::session::reply::Push;
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// Subscriptions that are looked at before the loop turns to its other work, and then goes on with what waits.
const VISITS_PER_COMMAND: usize = 2_048;

/// The tables of a loop: one for each gateway that has clients there.
static TABLES: LoopLocal<RefCell<Vec<Weak<LoopTable>>>> = LoopLocal::new(RefCell::default);

/// The clients of one loop and their subscriptions. Sessions keep it; it ends with the last of them.
///
/// Only the dispatch walks over subscriptions, and it is never nested: pushes may end sessions and begin others, whose
/// changes of a list that is walked over are made afterwards.
pub(in crate::session) struct LoopTable {
    hub: Arc<Hub>,
    inbox: Arc<LoopInbox>,
    lists: RefCell<FilterTable<Rc<SubscriberList>>>,
    subscribers: RefCell<HashMap<u64, Rc<Subscriber>>>,
    /// The number of the last walk.
    walk: Cell<u64>,
    is_dispatching: Cell<bool>,
    /// The number of items whose dispatch has begun.
    dispatched: Cell<u64>,
    /// The position of the last publication that was dispatched.
    dispatched_to: Cell<Option<Position>>,
    /// The lists that match a publication; kept for the next one.
    matches: RefCell<Vec<Rc<SubscriberList>>>,
    counters: Arc<ClientCounters>,
}

impl LoopTable {
    /// Returns the table of the calling loop for this hub, creating it if absent.
    ///
    /// # Panics
    /// If the calling thread runs no loop.
    pub(in crate::session) fn of_this_loop(hub: &Arc<Hub>) -> Rc<Self> {
        let found = TABLES.with(|tables| {
            let tables = tables.borrow();
            tables.iter().filter_map(Weak::upgrade).find(|table| Arc::ptr_eq(&table.hub, hub))
        });
        if let Some(table) = found.flatten() {
            return table;
        }
        let Some(here) = LocalLoop::current() else { panic!("a session is opened on a loop") };
        let table = Rc::new(Self {
            hub: hub.clone(),
            inbox: hub.open_inbox(here.handle()),
            lists: RefCell::default(),
            subscribers: RefCell::default(),
            walk: Cell::new(0),
            is_dispatching: Cell::new(false),
            dispatched: Cell::new(0),
            dispatched_to: Cell::new(None),
            matches: RefCell::default(),
            counters: hub.counters().on_this_loop(),
        });
        let weak = Rc::downgrade(&table);
        TABLES.with(|tables| {
            let mut tables = tables.borrow_mut();
            tables.retain(|table| table.strong_count() > 0);
            tables.push(weak);
        });
        table
    }

    /// Dispatches what waits in an inbox of the calling loop, within the budget of one command.
    pub(super) fn run(inbox: &Arc<LoopInbox>) {
        let found = TABLES.with(|tables| {
            let tables = tables.borrow();
            tables.iter().filter_map(Weak::upgrade).find(|table| Arc::ptr_eq(&table.inbox, inbox))
        });
        if let Some(table) = found.flatten() {
            table.dispatch(VISITS_PER_COMMAND, true);
        }
    }

    pub(in crate::session) fn inbox(&self) -> &Arc<LoopInbox> {
        &self.inbox
    }

    pub(in crate::session) fn counters(&self) -> &Arc<ClientCounters> {
        &self.counters
    }

    /// Returns the position of the last publication that was dispatched here.
    pub(in crate::session) fn dispatched_to(&self) -> Option<Position> {
        self.dispatched_to.get()
    }

    /// Adds a client.
    pub(in crate::session) fn join(
        &self,
        number: u64,
        id: Arc<str>,
        protocol: ClientProtocol,
        connection: Rc<dyn ClientConnection>,
    ) -> Rc<Subscriber> {
        let last_walk = Cell::new(0);
        let subscriber = Rc::new(Subscriber { id, protocol, connection, last_walk });
        let before = self.subscribers.borrow_mut().insert(number, subscriber.clone());
        drop(before);
        subscriber
    }

    /// Removes a client, whose subscriptions have ended.
    pub(in crate::session) fn leave(&self, number: u64) {
        let removed = self.subscribers.borrow_mut().remove(&number);
        drop(removed);
    }

    /// Adds a subscription. It gets nothing before [`Subscription::begin`]; if it recovers, publications are kept from now on.
    pub(in crate::session) fn subscribe(
        &self,
        subscriber: &Rc<Subscriber>,
        filter: &TopicFilter,
        wants_presence: bool,
        recovers: bool,
    ) -> Rc<Subscription> {
        let list = {
            let mut lists = self.lists.borrow_mut();
            lists.get_or_insert_with(filter, || SubscriberList::new(filter.clone())).clone()
        };
        let phase = match recovers {
            true => SubscriptionPhase::Recovering,
            false => SubscriptionPhase::Starting,
        };
        let subscription =
            Rc::new(Subscription::new(subscriber.clone(), wants_presence, phase, list.clone()));
        list.add(subscription.clone());
        self.counters.count_subscription();
        subscription
    }

    /// Ends a subscription.
    pub(in crate::session) fn unsubscribe(&self, subscription: &Subscription) {
        if subscription.list.remove(subscription) {
            self.remove_list(&subscription.list);
        }
        self.counters.count_ended_subscriptions(1);
    }

    /// Dispatches everything that has reached this loop so far, in as many turns as that takes.
    pub(in crate::session) async fn catch_up(&self) {
        let reached = self.inbox.pushed();
        // A dispatch that is under way may be what polls this future.
        let is_behind = || self.is_dispatching.get() || self.dispatched.get() < reached;
        while is_behind() {
            self.dispatch(VISITS_PER_COMMAND, false);
            if is_behind() {
                yield_now().await;
            }
        }
    }

    /// Takes what waits, and hands it to its receivers, unless that is being done already.
    fn dispatch(&self, mut budget: usize, ends_command: bool) {
        if self.is_dispatching.replace(true) {
            return;
        }
        let mut run = DispatchRun { table: self, items: VecDeque::new(), is_finished: false };
        while budget > 0 && !run.is_finished {
            match run.items.pop_front() {
                Some(item) => {
                    // Counted first: an item whose receiver panics does not come again.
                    self.dispatched.set(self.dispatched.get() + 1);
                    budget = budget.saturating_sub(self.hand_on(item));
                }
                None => {
                    run.items = self.inbox.take(ends_command);
                    run.is_finished = run.items.is_empty();
                }
            }
        }
    }

    /// Hands an item to its receivers, and returns the number of subscriptions or clients that were looked at, at least 1.
    fn hand_on(&self, item: InboxItem) -> usize {
        match item {
            InboxItem::Publication(delivery) => self.deliver(delivery),
            InboxItem::Presence { topic, member, is_present } => {
                self.tell_presence(topic, member, is_present)
            }
            InboxItem::Direct { client, from, text } => {
                let receiver = self.subscribers.borrow().get(&client).cloned();
                if let Some(receiver) = receiver {
                    receiver.connection.push(&Push::Direct { from, text });
                }
                1
            }
            InboxItem::Missed => self.tell_missed(),
            InboxItem::Close(error) => self.close_all(&error),
        }
    }

    /// Pushes a publication to its receivers. Returns the number of subscriptions that match it, at least 1.
    ///
    /// For each receiver the walk reads its subscription and compares two positions and a number: no lock, no look-up, no
    /// allocation, no count of references.
    fn deliver(&self, delivery: Arc<Delivery>) -> usize {
        let position = delivery.publication().position;
        let limits = self.hub.limits();
        let matches = self.matches_of(&delivery.publication().topic);
        let walk = self.next_walk();
        let push = Push::Publication(delivery.clone());
        let mut delivered = [0_u64; ClientProtocol::ALL.len()];
        let mut visited = 0;
        for list in &matches {
            let is_empty = list.walk(|subscription| {
                visited += 1;
                match subscription.phase.get() {
                    SubscriptionPhase::Live => {
                        let known = subscription.known_to.get();
                        let is_known =
                            position.epoch == known.epoch && position.sequence <= known.sequence;
                        let subscriber = &subscription.subscriber;
                        if !is_known && subscriber.last_walk.replace(walk) != walk {
                            delivered[subscriber.protocol as usize] += 1;
                            subscriber.connection.push(&push);
                        }
                    }
                    SubscriptionPhase::Recovering => subscription.keep(&delivery, limits),
                    SubscriptionPhase::Starting | SubscriptionPhase::Ended => {}
                }
            });
            if is_empty {
                self.remove_list(list);
            }
        }
        self.keep_matches(matches);
        self.dispatched_to.set(Some(position));
        for protocol in ClientProtocol::ALL {
            let count = delivered[protocol as usize];
            if count > 0 {
                self.counters.count_deliveries(protocol, count);
            }
        }
        visited.max(1)
    }

    /// Tells those who asked that a client has entered a topic or left it; not the client itself.
    fn tell_presence(&self, topic: Topic, member: PresentClient, is_present: bool) -> usize {
        let matches = self.matches_of(&topic);
        let walk = self.next_walk();
        let client = member.client.clone();
        let push = Push::Presence { topic, member, is_present };
        let mut visited = 0;
        for list in &matches {
            let is_empty = list.walk(|subscription| {
                visited += 1;
                let subscriber = &subscription.subscriber;
                let is_asked = subscription.phase.get() == SubscriptionPhase::Live
                    && subscription.wants_presence
                    && subscriber.id != client;
                if is_asked && subscriber.last_walk.replace(walk) != walk {
                    subscriber.connection.push(&push);
                }
            });
            if is_empty {
                self.remove_list(list);
            }
        }
        self.keep_matches(matches);
        visited.max(1)
    }

    /// Tells all clients that they may have missed publications.
    fn tell_missed(&self) -> usize {
        let push = Push::Missed { count: 0, position: self.dispatched_to.get() };
        let receivers = self.receivers();
        receivers.iter().for_each(|receiver| receiver.connection.push(&push));
        receivers.len().max(1)
    }

    fn close_all(&self, error: &GatewayError) -> usize {
        let receivers = self.receivers();
        receivers.iter().for_each(|receiver| receiver.connection.close(error.clone(), true));
        receivers.len().max(1)
    }

    /// Removes a list that is empty.
    fn remove_list(&self, list: &Rc<SubscriberList>) {
        let mut lists = self.lists.borrow_mut();
        let is_current = lists.get(list.filter()).is_some_and(|current| Rc::ptr_eq(current, list));
        if is_current {
            lists.remove(list.filter());
        }
    }

    fn receivers(&self) -> Vec<Rc<Subscriber>> {
        self.subscribers.borrow().values().cloned().collect()
    }

    fn matches_of(&self, topic: &Topic) -> Vec<Rc<SubscriberList>> {
        let mut matches = self.matches.take();
        self.lists.borrow().for_each_match(topic, |list| matches.push(list.clone()));
        matches
    }

    fn keep_matches(&self, mut matches: Vec<Rc<SubscriberList>>) {
        matches.clear();
        self.matches.replace(matches);
    }

    fn next_walk(&self) -> u64 {
        let walk = self.walk.get() + 1;
        self.walk.set(walk);
        walk
    }
}

/// A dispatch under way. What it has taken and not handed on goes back when it is dropped, after a panic too, and the
/// loop is sent another command for it.
struct DispatchRun<'a> {
    table: &'a LoopTable,
    items: VecDeque<InboxItem>,
    /// True if nothing more was waiting.
    is_finished: bool,
}

impl Drop for DispatchRun<'_> {
    fn drop(&mut self) {
        self.table.is_dispatching.set(false);
        if !self.is_finished {
            self.table.inbox.put_back(std::mem::take(&mut self.items));
            self.table.inbox.wake();
        }
    }
}
