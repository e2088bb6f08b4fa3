//! The engine for several gateways that share one Redis, or one Redis Cluster.
//!
//! ```text
//!   publish ──► script: sequence, stream of the topic, PUBLISH ──► the one connection of each gateway ──► sink
//!   history ──► script: XRANGE                                        (loop of the engine)
//!   enter, leave ──► script: notes, PUBLISH        beat ──► keeps the notes alive, tells the position
//! ```
//!
//! # Rules
//!
//! 1. A gateway has one connection, by RESP3, for everything. Redis sends on it what is published before the answers of later
//!    calls: so an answer with a position says that everything up to there was handed on, and the order of the sink is that of
//!    the sequences.
//! 2. Each change is one script, so it happens as a whole and at one place in the order. All keys have the same slot.
//! 3. A sequence is never given twice; an epoch ends when publications may be lost: no state in Redis, a server that was
//!    started without an append-only file or that was a replica, or a gateway that knows a greater sequence than Redis.
//! 4. A gateway subscribes to a channel once (`subscriptions`). What comes twice, through two filters, is handed on once.
//! 5. Calls wait in a queue with limits, of those with long answers a few are sent at a time; a call fails when its connection ends. Notes of presence are kept here as well, and
//!    written again after a reconnect.
//! 6. What Redis holds is limited by the scripts, with the limits of the gateway that publishes.
//!
//! The connection pool of the libraries is not used: it lends a connection to one user at a time, whereas this one is shared by
//! all calls, and their order on it is the order of the engine.

mod connection;
mod history;
mod limits;
mod notes;
pub mod options;
mod presence;
mod progress;
mod publish;
mod scripts;
mod shared;
mod subscriptions;

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel::channel::{EventLoopGroup, timeout};
use waterwheel::executor::{PromiseFuture, SharedFuture};

pub use self::connection::address::{InvalidRedisUrl, RedisUrl};
use self::connection::life;
use self::options::{RedisOptionError, RedisOptions};
use self::scripts::RedisScript;
use self::scripts::error_reply::{NAME, unavailable};
use self::scripts::reply::ReplyValues;
use self::shared::{EnginePhase, RedisShared, answer_of};
use super::limits::HistoryLimits;
use super::position::Position;
use super::publication::NewPublication;
use super::{
    Engine, EngineError, EngineFuture, EngineSink, EngineStatus, HistoryPage, HistoryQuery,
    PresencePage, PresentClient, TopicPage,
};
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// The engine of gateways that share a Redis. Dropping it ends it at once: calls without an answer fail.
pub struct RedisEngine {
    shared: Arc<RedisShared>,
    /// The task that connects.
    life: Mutex<Option<PromiseFuture<()>>>,
    closed: Mutex<Option<SharedFuture<()>>>,
}

impl RedisEngine {
    /// Starts an engine on a loop of the group, and begins to connect. Until it has, calls fail;
    /// [`connected`](Self::connected) waits for it.
    ///
    /// # Errors
    /// The options cannot be used.
    pub fn open(
        options: RedisOptions,
        limits: HistoryLimits,
        loops: &EventLoopGroup,
        sink: Arc<dyn EngineSink>,
    ) -> Result<Self, RedisOptionError> {
        let tls = options.check()?;
        let event_loop = loops.without_lease().next();
        let shared = RedisShared::new(options, limits, event_loop, sink);
        let of_life = Arc::clone(&shared);
        let life = shared.event_loop.spawn_with(move || life::run(of_life, tls));
        let life = Mutex::new(life.ok());
        Ok(Self { shared, life, closed: Mutex::new(None) })
    }

    /// Waits until the engine is connected. Fails if it is closed before.
    pub fn connected(&self) -> EngineFuture<()> {
        let mut state = self.shared.lock();
        if state.phase != EnginePhase::Away {
            return Box::pin(ready(state.check_available().map(drop)));
        }
        let (promise, connected) = self.shared.event_loop.new_promise();
        state.waiting_for_connection.push(promise);
        drop(state);
        Box::pin(async { connected.await.map_err(|error| unavailable(error.to_string())) })
    }

    fn end_life(&self) {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(life) = life {
            life.cancel();
        }
    }
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngine").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Drop for RedisEngine {
    fn drop(&mut self) {
        if self.shared.begin_close() {
            self.shared.release();
        }
        self.end_life();
    }
}

impl Engine for RedisEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn publish(
        &self,
        publications: Vec<NewPublication>,
    ) -> EngineFuture<Vec<Result<Position, EngineError>>> {
        self.shared.publish(&publications)
    }

    fn subscribe(&self, filter: &TopicFilter) -> EngineFuture<Position> {
        let must_wake = {
            let mut state = self.shared.lock();
            if let Err(error) = state.check_available() {
                return Box::pin(ready(Err(error)));
            }
            let prefix = self.shared.options.key_prefix();
            let channel = state.subscriptions.add(filter);
            channel.is_some_and(|channel| {
                let channel = format!("{prefix}{channel}");
                self.shared.push_subscription(&mut state, true, &[channel])
            })
        };
        self.shared.wake_writer(must_wake);
        let answer = self.shared.call(RedisScript::Position, &[]);
        Box::pin(async move { ReplyValues::of(answer_of(answer?).await?)?.position() })
    }

    fn unsubscribe(&self, filter: &TopicFilter) {
        let must_wake = {
            let mut state = self.shared.lock();
            match state.subscriptions.remove(filter) {
                Some(channel) if state.phase == EnginePhase::Live => {
                    let channel = format!("{}{channel}", self.shared.options.key_prefix());
                    self.shared.push_subscription(&mut state, false, &[channel])
                }
                _ => false,
            }
        };
        self.shared.wake_writer(must_wake);
    }

    fn history(&self, query: HistoryQuery) -> EngineFuture<HistoryPage> {
        Box::pin(Arc::clone(&self.shared).history(query))
    }

    fn enter(&self, topic: &Topic, member: &PresentClient) {
        self.shared.enter(topic, member);
    }

    fn leave(&self, topic: &Topic, client: &str) {
        self.shared.leave(topic, client);
    }

    fn presence(&self, topic: &Topic, limit: usize) -> EngineFuture<PresencePage> {
        Box::pin(Arc::clone(&self.shared).presence(topic.clone(), limit))
    }

    fn topics(&self, limit: usize) -> EngineFuture<TopicPage> {
        Box::pin(Arc::clone(&self.shared).topics(limit))
    }

    fn status(&self) -> EngineStatus {
        let state = self.shared.lock();
        let is_available = state.phase == EnginePhase::Live && state.connection.is_some();
        EngineStatus {
            is_available,
            description: state.trouble.clone(),
            reconnects: state.reconnects,
            in_flight: state.calls.len() as u64,
            lag: is_available.then(|| state.lag(self.shared.clock.now())).flatten(),
            topics: state.totals.topics,
            held_publications: state.totals.held,
            held_bytes: state.totals.bytes,
        }
    }

    fn close(&self) -> EngineFuture<()> {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(closed) = &*closed {
            return wait_for_end(closed.clone());
        }
        self.shared.begin_close();
        let shared = Arc::clone(&self.shared);
        let closing = async move {
            let connection = shared.lock().connection.as_ref().map(|c| (c.number, c.node.clone()));
            if let Some((number, node)) = connection {
                // The answer comes after everything that was published before, and after the answers of all calls.
                let _ = timeout(shared.options.timeout, shared.retire(number, &node)).await;
            }
            shared.release();
        };
        let end = match self.shared.event_loop.spawn_with(move || closing) {
            Ok(end) => end.shared(),
            Err(_) => {
                self.shared.release();
                return Box::pin(ready(Ok(())));
            }
        };
        *closed = Some(end.clone());
        wait_for_end(end)
    }
}

/// Waits until the engine has ended. If its loop has ended before, so has the engine.
fn wait_for_end(end: SharedFuture<()>) -> EngineFuture<()> {
    Box::pin(async move {
        let _ = end.await;
        Ok(())
    })
}
