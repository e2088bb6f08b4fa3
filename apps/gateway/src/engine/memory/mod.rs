//! The engine in the memory of this process, for a gateway that stands alone.
//!
//! ```text
//!   publish ──► position, history ──► outgoing queue ──► sink, without the lock
//!   history ◄── topics                 (one thread at a time; the publisher's future waits for it)
//! ```
//!
//! # Rules
//!
//! 1. One lock guards the state. It is held for a publication (about a microsecond) or one step of a longer answer; the sink,
//!    wakers and the last reference to a sink are called or dropped without it.
//! 2. A publication that no filter matches goes into its history only.
//! 3. Histories, topics and notes of presence are within [`HistoryLimits`]; what waits for the sink, within limits of its own. A
//!    publication beyond those is refused; of presence, the notification is left out.
//! 4. Held payloads are copies: one that a gateway has cut out of a read buffer would keep the whole buffer.
//! 5. The epoch is random, so that a position of a former run is known as such.

mod outgoing;
mod shared;

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use waterwheel::executor::Clock;

use self::shared::MemoryShared;
use super::limits::HistoryLimits;
use super::position::Position;
use super::publication::NewPublication;
use super::{
    Engine, EngineError, EngineFuture, EngineSink, EngineStatus, HistoryPage, HistoryQuery,
    PresencePage, PresentClient, TopicPage,
};
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// The name of the engine.
const NAME: &str = "memory";

/// The engine of a gateway that stands alone. Dropping it is like [`close`](Engine::close).
///
/// ```
/// # use std::sync::Arc;
/// # use waterwheel_gateway::engine::position::Position;
/// # use waterwheel_gateway::engine::publication::{Publication, PublicationPayload, NewPublication};
/// # use waterwheel_gateway::engine::{EngineSink, PresentClient};
/// # use waterwheel_gateway::topic::name::Topic;
/// use waterwheel_gateway::engine::Engine;
/// use waterwheel_gateway::engine::limits::HistoryLimits;
/// use waterwheel_gateway::engine::memory::MemoryEngine;
///
/// #[derive(Debug)]
/// struct Hub;
///
/// impl EngineSink for Hub {
///     fn on_publication(&self, publication: Arc<Publication>) {
///         println!("{} {}", publication.position, publication.topic);
///     }
///     # fn on_gap(&self, _: Option<Position>) {}
///     # fn on_presence(&self, _: &Topic, _: &PresentClient, _: bool) {}
/// }
///
/// let engine = MemoryEngine::new(HistoryLimits::default(), Arc::new(Hub));
/// assert!(engine.status().is_available);
/// ```
pub struct MemoryEngine {
    shared: Arc<MemoryShared>,
}

impl MemoryEngine {
    /// Creates an engine that hands on to `sink`.
    #[must_use]
    pub fn new(limits: HistoryLimits, sink: Arc<dyn EngineSink>) -> Self {
        Self::with_clock(limits, sink, Clock::Monotonic)
    }

    /// Creates an engine that measures ages and rates by `clock`.
    #[must_use]
    pub fn with_clock(limits: HistoryLimits, sink: Arc<dyn EngineSink>, clock: Clock) -> Self {
        Self { shared: Arc::new(MemoryShared::new(limits, sink, clock)) }
    }
}

impl fmt::Debug for MemoryEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryEngine").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Drop for MemoryEngine {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Engine for MemoryEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn publish(
        &self,
        mut publications: Vec<NewPublication>,
    ) -> EngineFuture<Vec<Result<Position, EngineError>>> {
        for publication in &mut publications {
            publication.payload = publication.payload.to_detached();
        }
        self.shared.publish(publications)
    }

    fn subscribe(&self, filter: &TopicFilter) -> EngineFuture<Position> {
        let subscribed = {
            let mut state = self.shared.lock();
            state.check_open().map(|()| {
                state.interest.insert(filter);
                state.history.last()
            })
        };
        Box::pin(self.shared.after_all(subscribed))
    }

    fn unsubscribe(&self, filter: &TopicFilter) {
        self.shared.lock().interest.remove(filter);
    }

    fn history(&self, query: HistoryQuery) -> EngineFuture<HistoryPage> {
        Box::pin(Arc::clone(&self.shared).read_history(query))
    }

    fn enter(&self, topic: &Topic, member: &PresentClient) {
        self.shared.change_presence(|state| {
            let has_entered = state.presence.enter(topic, member);
            has_entered.then(|| (topic.clone(), member.clone(), true))
        });
    }

    fn leave(&self, topic: &Topic, client: &str) {
        self.shared.change_presence(|state| {
            state.presence.leave(topic, client).map(|member| (topic.clone(), member, false))
        });
    }

    fn presence(&self, topic: &Topic, limit: usize) -> EngineFuture<PresencePage> {
        let state = self.shared.lock();
        Box::pin(ready(state.check_open().map(|()| state.presence.page(topic, limit))))
    }

    fn topics(&self, limit: usize) -> EngineFuture<TopicPage> {
        let state = self.shared.lock();
        let page = state.check_open().map(|()| {
            let (topics, has_more) = state.history.facts(limit, self.shared.clock.now());
            TopicPage { topics, has_more }
        });
        Box::pin(ready(page))
    }

    fn status(&self) -> EngineStatus {
        let state = self.shared.lock();
        let (topics, held_publications, held_bytes) = state.history.totals();
        let is_available = !state.outgoing.is_closed();
        let waiting =
            if state.outgoing.is_full() { "; clients publish faster than it hands on" } else { "" };
        EngineStatus {
            is_available,
            description: match is_available {
                true => format!("in the memory of this process{waiting}"),
                false => "closed".to_owned(),
            },
            reconnects: 0,
            in_flight: state.outgoing.len() as u64,
            lag: None,
            topics: topics as u64,
            held_publications: held_publications as u64,
            held_bytes: held_bytes as u64,
        }
    }

    fn close(&self) -> EngineFuture<()> {
        self.shared.close();
        Box::pin(self.shared.after_all(Ok(())))
    }
}
