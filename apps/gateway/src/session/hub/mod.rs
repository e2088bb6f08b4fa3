//! The hub: brings what the engine hands on to the clients of this gateway, on all loops.
//!
//! ```text
//!   engine, any thread ──► Hub: which loops? ──► LoopInbox ── one command ──► LoopTable: which clients? ──► push
//!                             │ interests (shared)                  │ lists of subscriptions (of the loop)
//!                             └ gap: reads the history              └ walk
//! ```
//!
//! # Rules
//!
//! 1. A publication costs one entry in the inbox of each loop with a subscription that matches, and one command to those
//!    that have none on the way. The walk over receivers uses nothing that another thread could hold.
//! 2. Inboxes are filled in the order of positions: the calls of the engine are serialised by `route`, and those that come
//!    while a gap is filled wait there.
//! 3. The engine is called without any lock of the hub.
//! 4. The engine has a filter exactly while at least one subscription uses it; the calls for one filter never overlap
//!    ([`interest`]).

mod filter_table;
mod filter_trie;
mod gap;
pub(super) mod interest;
pub(super) mod loop_inbox;
pub(super) mod loop_table;
pub(super) mod subscriber;
pub(super) mod user_names;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use waterwheel::channel::EventLoop;

use self::filter_table::FilterTable;
use self::gap::PublicationRoute;
use self::interest::FilterInterest;
use self::loop_inbox::{InboxItem, LoopInbox};
use self::user_names::UserNames;
use super::delivery::Delivery;
use super::limits::GatewayLimits;
use crate::engine::position::Position;
use crate::engine::publication::Publication;
use crate::engine::{Engine, EngineError, EngineSink, PresentClient};
use crate::error_code::GatewayError;
use crate::metrics::counters::GatewayCounters;
use crate::topic::name::Topic;

/// The subscriptions of all loops, by filter, and the way to the loops. Shared by all of them and by the engine.
pub(super) struct Hub {
    limits: GatewayLimits,
    counters: Arc<GatewayCounters>,
    /// Set once, before the first client. Weak: the engine has the hub.
    engine: OnceLock<Weak<dyn Engine>>,
    /// Read for each publication; written when a subscription begins or ends.
    interests: RwLock<FilterTable<FilterInterest>>,
    /// Locked by the engine's call for each publication.
    route: Mutex<PublicationRoute>,
    /// The loops that have clients.
    inboxes: Mutex<Vec<Weak<LoopInbox>>>,
    names: UserNames,
}

impl Hub {
    pub(super) fn new(limits: GatewayLimits, counters: Arc<GatewayCounters>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            counters,
            engine: OnceLock::new(),
            interests: RwLock::default(),
            route: Mutex::default(),
            inboxes: Mutex::default(),
            names: UserNames::default(),
        })
    }

    /// Sets the engine.
    pub(super) fn connect(&self, engine: &Arc<dyn Engine>) {
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    pub(super) fn limits(&self) -> &GatewayLimits {
        &self.limits
    }

    pub(super) fn counters(&self) -> &Arc<GatewayCounters> {
        &self.counters
    }

    pub(super) fn names(&self) -> &UserNames {
        &self.names
    }

    /// Counts the subscriptions that match a topic, on all loops.
    pub(super) fn count_subscriptions(&self, topic: &Topic) -> usize {
        let interests = self.interests.read().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        interests.for_each_match(topic, |interest| count += interest.subscriptions());
        count
    }

    /// Closes all clients, after everything that they are still to be sent.
    pub(super) fn close_all(&self, error: &GatewayError) {
        for inbox in self.open_inboxes() {
            inbox.send(InboxItem::Close(error.clone()));
        }
    }

    /// Opens the inbox of a loop.
    fn open_inbox(&self, event_loop: EventLoop) -> Arc<LoopInbox> {
        let inbox = Arc::new(LoopInbox::new(event_loop, &self.limits));
        let mut inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes.retain(|inbox| inbox.strong_count() > 0);
        inboxes.push(Arc::downgrade(&inbox));
        inbox
    }

    fn open_inboxes(&self) -> Vec<Arc<LoopInbox>> {
        let inboxes = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes.iter().filter_map(Weak::upgrade).collect()
    }

    fn engine(&self) -> Result<Arc<dyn Engine>, EngineError> {
        self.engine.get().and_then(Weak::upgrade).ok_or_else(|| EngineError::Unavailable {
            engine: "none",
            reason: String::from("the gateway has ended"),
        })
    }

    /// Puts a publication into the inboxes of the loops with matching subscriptions, and adds those to be woken.
    fn post(&self, publication: Arc<Publication>, to_wake: &mut Vec<Arc<LoopInbox>>) {
        let mut receivers: Vec<Arc<LoopInbox>> = Vec::new();
        {
            let interests = self.interests.read().unwrap_or_else(PoisonError::into_inner);
            interests.for_each_match(&publication.topic, |interest| {
                for inbox in interest.inboxes() {
                    if !receivers.iter().any(|known| Arc::ptr_eq(known, inbox)) {
                        receivers.push(inbox.clone());
                    }
                }
            });
        }
        if receivers.is_empty() {
            return;
        }
        let delivery = Arc::new(Delivery::new(publication));
        receivers.retain(|inbox| inbox.push(InboxItem::Publication(delivery.clone())));
        to_wake.append(&mut receivers);
    }
}

/// The side of the engine.
#[derive(Clone)]
pub(super) struct HubSink(pub(super) Arc<Hub>);

impl EngineSink for HubSink {
    fn on_publication(&self, publication: Arc<Publication>) {
        self.0.route_publication(publication);
    }

    fn on_gap(&self, last: Option<Position>) {
        self.0.route_gap(last);
    }

    fn on_presence(&self, topic: &Topic, member: &PresentClient, is_present: bool) {
        let mut watching: Vec<Arc<LoopInbox>> = Vec::new();
        {
            let interests = self.0.interests.read().unwrap_or_else(PoisonError::into_inner);
            interests.for_each_match(topic, |interest| {
                for inbox in interest.watching_inboxes() {
                    if !watching.iter().any(|known| Arc::ptr_eq(known, inbox)) {
                        watching.push(inbox.clone());
                    }
                }
            });
        }
        for inbox in watching {
            let (topic, member) = (topic.clone(), member.clone());
            inbox.send(InboxItem::Presence { topic, member, is_present });
        }
    }
}

impl fmt::Debug for HubSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HubSink")
    }
}
