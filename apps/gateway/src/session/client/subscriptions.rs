//! How a session subscribes, and recovers what it has missed.
//!
//! # Resume
//!
//! 1. The subscription is put into the table of the loop and keeps what comes; the engine is asked for the filter.
//! 2. The history is read after the position of the client, up to the position Q.
//! 3. The loop dispatches what has reached it: by the contract of engines that is everything up to Q, for the other
//!    subscriptions of the client.
//! 4. Without waiting any more: what was kept and is after Q is appended to what was read, the answer is written, then all of
//!    it; from then on the subscription gets what comes.
//!
//! So nothing is lost: what is not in the history up to Q is handed on after Q. And nothing comes twice: a subscription takes
//! nothing that is not after the position of its answer.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use super::SessionState;
use super::commands::CommandOutcome;
use crate::engine::position::Position;
use crate::engine::{Engine, HistoryQuery, PresentClient};
use crate::error_code::{ErrorCode, GatewayError};
use crate::session::delivery::Delivery;
use crate::session::hub::interest::HubInterest;
use crate::session::hub::loop_table::LoopTable;
use crate::session::hub::subscriber::Subscription;
use crate::session::limits::GatewayLimits;
use crate::session::operations::check_subscribe;
use crate::session::requester::Requester;
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// Publications that are read at once.
const PAGE: usize = 1_000;

/// A subscription of the session; it ends when this is dropped.
pub(super) struct ClientSubscription {
    table: Rc<LoopTable>,
    subscription: Rc<Subscription>,
    interest: HubInterest,
    /// The presence of the client in the topic, if the filter is one.
    presence: Option<TopicPresence>,
}

/// The presence of a client in a topic; it ends when this is dropped.
struct TopicPresence {
    engine: Arc<dyn Engine>,
    topic: Topic,
    client: Arc<str>,
}

/// The history after a position.
struct RecoveredHistory {
    publications: VecDeque<Arc<Delivery>>,
    /// Everything up to here is among them, but for a gap.
    position: Position,
    has_gap: bool,
}

impl ClientSubscription {
    pub(super) fn filter(&self) -> &TopicFilter {
        self.subscription.filter()
    }
}

impl Drop for ClientSubscription {
    fn drop(&mut self) {
        self.table.unsubscribe(&self.subscription);
    }
}

impl Drop for TopicPresence {
    fn drop(&mut self) {
        self.engine.leave(&self.topic, &self.client);
    }
}

impl SessionState {
    /// Subscribes, and recovers what the client has missed.
    pub(super) async fn subscribe(
        self: &Rc<Self>,
        requester: &Requester,
        filter: TopicFilter,
        since: Option<Position>,
        wants_presence: bool,
    ) -> Result<CommandOutcome, GatewayError> {
        let _operation = self.core.begin_operation()?;
        check_subscribe(requester, &filter)?;
        self.check_subscriptions(&filter)?;
        let table = &self.table;
        let subscription =
            table.subscribe(&self.subscriber, &filter, wants_presence, since.is_some());
        let interest = HubInterest::add(self.core.hub(), &filter, table.inbox(), wants_presence);
        let table = table.clone();
        let mut joining = ClientSubscription { table, subscription, interest, presence: None };
        let start = self.core.call_engine(joining.interest.activate()).await?;
        let outcome = match since {
            Some(since) => self.recover(&joining.subscription, since).await?,
            None => {
                self.table.catch_up().await;
                // What was dispatched before is not for this subscription.
                let position = later_of(start, self.table.dispatched_to());
                joining.subscription.begin(position);
                CommandOutcome::subscribed(position, Vec::new(), false)
            }
        };
        joining.presence = self.enter(requester, &filter);
        self.subscriptions.borrow_mut().push(joining);
        Ok(outcome)
    }

    fn check_subscriptions(&self, filter: &TopicFilter) -> Result<(), GatewayError> {
        let subscriptions = self.subscriptions.borrow();
        if subscriptions.iter().any(|each| each.filter() == filter) {
            let message = format!("this client has a subscription to {filter}");
            return Err(GatewayError::new(ErrorCode::AlreadySubscribed, message));
        }
        let limit = self.core.limits().subscriptions;
        match subscriptions.len() < limit {
            true => Ok(()),
            false => Err(GatewayError::new(
                ErrorCode::TooManySubscriptions,
                format!("a client has at most {limit} subscriptions"),
            )),
        }
    }

    /// Notes the presence of the client, if the filter is a topic.
    fn enter(&self, requester: &Requester, filter: &TopicFilter) -> Option<TopicPresence> {
        let topic = Topic::parse(filter.as_str(), &self.core.limits().topic).ok()?;
        let (engine, client) = (self.core.engine().clone(), self.place.id.clone());
        let member = PresentClient { client: client.clone(), user: requester.user().cloned() };
        engine.enter(&topic, &member);
        Some(TopicPresence { engine, topic, client })
    }

    /// Reads what the client has missed, and begins the subscription.
    async fn recover(
        &self,
        subscription: &Subscription,
        since: Position,
    ) -> Result<CommandOutcome, GatewayError> {
        let RecoveredHistory { mut publications, position, mut has_gap } =
            self.read_history(subscription.filter(), since).await?;
        self.table.catch_up().await;
        let known_to = later_of(position, self.table.dispatched_to());
        let kept = subscription.begin(known_to);
        has_gap |= kept.has_lost;
        let is_new = |delivery: &Arc<Delivery>| {
            let of = delivery.publication().position;
            of.epoch != position.epoch || of.is_after(position)
        };
        publications.extend(kept.deliveries.into_iter().filter(is_new));
        has_gap |= keep_latest(&mut publications, self.core.limits());
        Ok(CommandOutcome::subscribed(known_to, publications.into(), has_gap))
    }

    /// Reads the history after a position: the latest publications, up to the limit.
    async fn read_history(
        &self,
        filter: &TopicFilter,
        since: Position,
    ) -> Result<RecoveredHistory, GatewayError> {
        let limit = self.core.limits().recovered;
        let mut publications = VecDeque::new();
        let (mut cursor, mut has_gap, mut read) = (since, false, 0);
        loop {
            let query = HistoryQuery { filter: filter.clone(), since: Some(cursor), limit: PAGE };
            let page = self.core.call_engine(self.core.engine().history(query)).await?;
            has_gap |= page.has_gap;
            read += page.publications.len();
            let last = page.publications.last().map(|last| last.position);
            let wrap = |publication| Arc::new(Delivery::new(publication));
            publications.extend(page.publications.into_iter().map(wrap));
            has_gap |= keep_latest(&mut publications, self.core.limits());
            match last {
                Some(last) if page.has_more && read < limit.saturating_mul(4) => cursor = last,
                _ => {
                    // More than that is published faster than it is read.
                    has_gap |= page.has_more;
                    return Ok(RecoveredHistory { publications, position: page.position, has_gap });
                }
            }
        }
    }
}

/// Removes the oldest publications beyond the limits. Returns true if there were any.
fn keep_latest(publications: &mut VecDeque<Arc<Delivery>>, limits: &GatewayLimits) -> bool {
    let size = |delivery: &Arc<Delivery>| delivery.publication().payload.len();
    let mut bytes: usize = publications.iter().map(size).sum();
    let before = publications.len();
    while publications.len() > limits.recovered || bytes > limits.recovered_bytes {
        let Some(oldest) = publications.pop_front() else { break };
        bytes -= size(&oldest);
    }
    publications.len() < before
}

/// Returns the later of a position of the engine and that of the last publication that was dispatched, which may be of an
/// epoch before.
fn later_of(position: Position, dispatched_to: Option<Position>) -> Position {
    match dispatched_to {
        Some(dispatched_to) if dispatched_to.is_after(position) => dispatched_to,
        _ => position,
    }
}
