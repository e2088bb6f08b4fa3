//! An engine as one gateway has it, and the waits for what other processes do.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use waterwheel::channel::EventLoopGroup;
use waterwheel::net::Auto;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::nats::NatsEngine;
use waterwheel_gateway::engine::nats::options::NatsOptions;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::{Engine, HistoryPage, HistoryQuery, PresencePage};

use super::server::NatsServer;
use crate::engine_suite::{RecordingSink, filter, publish, topic, wait};

/// The longest that a test waits for the state of another process.
const DEADLINE: Duration = Duration::from_secs(30);

/// An engine with a sink that records.
pub(crate) struct Gateway {
    pub(crate) engine: Arc<NatsEngine>,
    pub(crate) sink: Arc<RecordingSink>,
    /// Dropped last: the engine ends on a loop.
    _loops: EventLoopGroup,
}

/// Returns options for a server, with times that fit a test.
pub(crate) fn options(url: &str) -> NatsOptions {
    NatsOptions {
        timeout: Duration::from_secs(1),
        presence: Duration::from_secs(5),
        ..NatsOptions::new(url.parse().unwrap())
    }
}

impl Gateway {
    /// Starts an engine, and waits until it is connected.
    pub(crate) fn start(server: &NatsServer) -> Self {
        let gateway = Self::with_options(options(&server.url()));
        gateway.wait_connected();
        gateway
    }

    /// Starts an engine.
    pub(crate) fn with_options(options: NatsOptions) -> Self {
        Self::with_limits(options, HistoryLimits::default())
    }

    /// Starts an engine with limits.
    pub(crate) fn with_limits(options: NatsOptions, limits: HistoryLimits) -> Self {
        let loops = EventLoopGroup::builder(Auto).threads(1).name("nats-gateway").build().unwrap();
        let sink = Arc::new(RecordingSink::default());
        let engine = NatsEngine::open(options, limits, &loops, Arc::clone(&sink) as _).unwrap();
        Self { engine: Arc::new(engine), sink, _loops: loops }
    }

    /// Subscribes to a filter.
    pub(crate) fn subscribe(&self, text: &str) -> Position {
        wait(self.engine.subscribe(&filter(text))).unwrap()
    }

    /// Publishes one JSON value.
    pub(crate) fn publish(&self, text: &str, value: impl ToString) -> Position {
        publish(&*self.engine, text, value).unwrap()
    }

    /// Reads a history.
    pub(crate) fn history(&self, text: &str, since: Option<Position>) -> HistoryPage {
        let query = HistoryQuery { filter: filter(text), since, limit: usize::MAX };
        wait(self.engine.history(query)).unwrap()
    }

    /// Waits until the engine is connected.
    pub(crate) fn wait_connected(&self) {
        wait_until(|| wait(self.engine.connected()).is_ok(), || self.engine.status().description);
    }

    /// Waits until the engine knows that its server is away.
    pub(crate) fn wait_away(&self) {
        wait_until(|| !self.engine.status().is_available, || self.engine.status().description);
    }

    /// Waits until the state of the engine has a text.
    pub(crate) fn wait_description(&self, part: &str) {
        let description = || self.engine.status().description;
        wait_until(|| description().contains(part), || format!("{part:?} in {}", description()));
    }

    /// Waits until a topic has as many clients, and returns them.
    pub(crate) fn wait_presence(&self, text: &str, count: usize) -> PresencePage {
        let page = || wait(self.engine.presence(&topic(text), 10_000)).unwrap();
        wait_until(|| page().count == count, || format!("{count} clients, not {}", page().count));
        page()
    }
}

/// Asks until something is true that another process does, up to a deadline.
#[allow(clippy::disallowed_methods, reason = "a limit for a wait for another process")]
pub(crate) fn wait_until(mut is_true: impl FnMut() -> bool, state: impl Fn() -> String) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < DEADLINE, "not in time: {}", state());
        thread::yield_now();
    }
}
