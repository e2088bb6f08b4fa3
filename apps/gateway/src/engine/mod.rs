//! Engines: they keep publications and hand them on, in this process or by a server that several gateways share.
//!
//! ```text
//!   sessions ── publish, history, presence ──► Engine ── publications, state ──► EngineSink: the hub of this gateway
//!                                                ▲ set_interest: the filters that clients of this gateway have
//! ```
//!
//! # Contract
//!
//! 1. *Order.* The sink is given publications in the order of their positions, over all topics, each once: one call after the
//!    other. A client that has seen a publication has then seen all before it that it was to see, so one position is enough to
//!    resume all of its subscriptions.
//! 2. *Interest.* After the future of [`Engine::subscribe`] is ready, every publication that a filter of the gateway matches
//!    reaches the sink, until [`Engine::unsubscribe`]. A publication that no filter matches may reach it too.
//! 3. *Positions* of one epoch are ordered over all topics. A publication has a position greater than all that were
//!    acknowledged before it was published.
//! 4. *History.* [`Engine::history`] returns what a filter matches after a position, oldest first, and says whether
//!    something after that position is missing: it is too old, or the position is of another epoch. A publication that is
//!    acknowledged is in the history from then on, within the limits of the history. When the future of [`Engine::history`] or
//!    [`Engine::subscribe`] is ready, the sink has been given everything up to the position that it returns.
//! 5. *Acknowledged* is a publication when the future of [`Engine::publish`] is ready. What is not acknowledged may have been
//!    published or not.
//! 6. *Faults.* A future fails with [`EngineError::Unavailable`] instead of waiting for an engine that is away. An engine
//!    that has been away tells the sink ([`EngineSink::on_gap`]) when publications may be missing; the hub fills in from the
//!    history what its clients have missed.
//! 7. *Threads.* All methods may be called on any thread, never block, and call the sink on any thread, never under a lock
//!    of which the sink could know. The futures are `Send`; dropping one cancels nothing that has been sent.

pub mod limits;
mod local;
pub mod memory;
pub mod nats;
pub mod open;
pub mod position;
pub mod publication;
pub mod redis;
mod remote;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use self::position::Position;
use self::publication::{NewPublication, Publication};
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// The future of a call into an engine.
pub type EngineFuture<T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send>>;

/// Keeps publications and hands them on. The module has the contract.
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the engine, for people.
    fn name(&self) -> &'static str;

    /// Publishes in order. The result has an entry for each publication.
    fn publish(
        &self,
        publications: Vec<NewPublication>,
    ) -> EngineFuture<Vec<Result<Position, EngineError>>>;

    /// Adds a filter to those of this gateway. The hub calls it with a filter that it has not subscribed to yet.
    /// Returns the position after which everything reaches the sink.
    fn subscribe(&self, filter: &TopicFilter) -> EngineFuture<Position>;

    /// Removes a filter from those of this gateway.
    fn unsubscribe(&self, filter: &TopicFilter);

    /// Reads the history.
    fn history(&self, query: HistoryQuery) -> EngineFuture<HistoryPage>;

    /// Notes that a client of this gateway is present in a topic, or refreshes the note.
    fn enter(&self, topic: &Topic, member: &PresentClient);

    /// Notes that a client of this gateway has left a topic.
    fn leave(&self, topic: &Topic, client: &str);

    /// Returns the clients that are present in a topic, of all gateways, at most `limit`, and their number.
    fn presence(&self, topic: &Topic, limit: usize) -> EngineFuture<PresencePage>;

    /// Returns what the engine knows of its topics, at most `limit` of them, in the order of their names.
    fn topics(&self, limit: usize) -> EngineFuture<TopicPage>;

    /// Returns the state of the engine, for `/readyz`, `/metrics` and the page.
    fn status(&self) -> EngineStatus;

    /// Ends the engine: waits until what was acknowledged is handed on, then drops its connections.
    fn close(&self) -> EngineFuture<()>;
}

/// The receiver of what an engine has for the gateway. Methods are called on any thread, and do not block.
pub trait EngineSink: fmt::Debug + Send + Sync + 'static {
    /// Hands on a publication.
    fn on_publication(&self, publication: Arc<Publication>);

    /// Tells that publications after `last` may be missing for all filters, or that the epoch has changed. The hub reads the
    /// history from there, and tells clients of gaps.
    fn on_gap(&self, last: Option<Position>);

    /// Tells that a client has entered a topic, or has left it.
    fn on_presence(&self, topic: &Topic, member: &PresentClient, is_present: bool);
}

/// A client that is present in a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PresentClient {
    /// The id of the client, unique over all gateways.
    pub client: Arc<str>,
    /// The user of the client, if it has one.
    pub user: Option<Arc<str>>,
}

/// The clients of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PresencePage {
    /// Some of them, in the order of their ids.
    pub clients: Vec<PresentClient>,
    /// The number of all of them.
    pub count: usize,
}

/// A question to the history.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// The topics.
    pub filter: TopicFilter,
    /// The position after which to read; `None` reads from the oldest publication.
    pub since: Option<Position>,
    /// Maximum number of publications; the oldest are returned.
    pub limit: usize,
}

/// A part of a history.
#[derive(Clone, Debug)]
pub struct HistoryPage {
    /// The publications, oldest first.
    pub publications: Vec<Arc<Publication>>,
    /// The position of the last publication of the engine when it was read: with `has_more` false, everything up to there was
    /// returned.
    pub position: Position,
    /// True if publications after the asked position are missing.
    pub has_gap: bool,
    /// True if there are more than the limit.
    pub has_more: bool,
}

/// The facts that an engine knows of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicFacts {
    /// The topic.
    pub topic: Topic,
    /// Publications so far.
    pub published: u64,
    /// Publications in the history.
    pub history: usize,
    /// Publications per second, over the last seconds.
    pub rate: f64,
}

/// Topics of an engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPage {
    /// Some of them, in the order of their names.
    pub topics: Vec<TopicFacts>,
    /// True if there are more.
    pub has_more: bool,
}

/// The state of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// True while the engine can publish.
    pub is_available: bool,
    /// A sentence for operators about its state.
    pub description: String,
    /// Times that the connection to a server was made anew.
    pub reconnects: u64,
    /// Calls that wait for an answer.
    pub in_flight: u64,
    /// How long the server takes to answer: the time that the last question for a sign of life took, or, if that is longer,
    /// the time that the oldest call without an answer has waited so far. `None` without a server, while the engine is away,
    /// and before the first answer.
    pub lag: Option<Duration>,
    /// Topics that the engine holds.
    pub topics: u64,
    /// Publications that the engine holds.
    pub held_publications: u64,
    /// Bytes of those publications.
    pub held_bytes: u64,
}

/// Why an engine failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EngineError {
    /// The engine does not answer.
    #[error("the engine {engine} is unavailable: {reason}")]
    Unavailable {
        /// The name of the engine.
        engine: &'static str,
        /// The call or connection that has failed.
        reason: String,
    },
    /// The engine refused a call.
    #[error("the engine {engine} refused: {reason}")]
    Refused {
        /// The name of the engine.
        engine: &'static str,
        /// The reason that it gave.
        reason: String,
    },
    /// The limit of topics is reached.
    #[error("the limit of {limit} topics is reached")]
    TooManyTopics {
        /// The limit.
        limit: usize,
    },
}
