//! Tests of the Redis engine beyond the suite, with real servers.

mod access;
mod cluster;
mod failures;
mod gateways;
mod restarts;
mod server;
mod slot_move;

use std::sync::Arc;
use std::time::{Duration, Instant};

use waterwheel::channel::EventLoopGroup;
use waterwheel::net::Auto;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::redis::RedisEngine;
use waterwheel_gateway::engine::redis::options::RedisOptions;
use waterwheel_gateway::engine::{Engine, EngineSink, HistoryPage, HistoryQuery, PresencePage};

use crate::engine_suite::{EngineFixture, RecordingSink, filter, publish, topic, wait};
pub(crate) use cluster::RedisCluster;
use server::{Persistence, RedisServer, is_redis_installed};

/// The longest that a test waits for the state of another process.
const DEADLINE: Duration = Duration::from_secs(30);

/// A Redis server without persistence.
pub(crate) struct Redis {
    loops: EventLoopGroup,
    server: RedisServer,
}

impl EngineFixture for Redis {
    fn is_installed() -> bool {
        is_redis_installed()
    }

    fn start() -> Self {
        Self { loops: new_loops(), server: RedisServer::start(Persistence::Nothing) }
    }

    fn engine(&self, limits: HistoryLimits, sink: Arc<dyn EngineSink>) -> Arc<dyn Engine> {
        connect(self.server.options(), limits, &self.loops, sink)
    }
}

fn new_loops() -> EventLoopGroup {
    EventLoopGroup::builder(Auto).threads(1).build().unwrap()
}

/// Starts an engine, and waits until it is connected.
fn connect(
    options: RedisOptions,
    limits: HistoryLimits,
    loops: &EventLoopGroup,
    sink: Arc<dyn EngineSink>,
) -> Arc<RedisEngine> {
    let engine = RedisEngine::open(options, limits, loops, sink).unwrap();
    wait(engine.connected()).unwrap();
    Arc::new(engine)
}

/// An engine with a sink that records, as one gateway has it.
struct Gateway {
    engine: Arc<RedisEngine>,
    sink: Arc<RecordingSink>,
    _loops: EventLoopGroup,
}

impl Gateway {
    fn start(server: &RedisServer) -> Self {
        Self::with_options(server.options())
    }

    fn with_options(options: RedisOptions) -> Self {
        Self::with_limits(options, HistoryLimits::default())
    }

    fn with_limits(options: RedisOptions, limits: HistoryLimits) -> Self {
        let loops = new_loops();
        let sink = Arc::new(RecordingSink::default());
        let engine = connect(options, limits, &loops, Arc::clone(&sink) as _);
        Self { engine, sink, _loops: loops }
    }

    fn subscribe(&self, text: &str) -> Position {
        wait(self.engine.subscribe(&filter(text))).unwrap()
    }

    fn publish(&self, text: &str, value: impl ToString) -> Position {
        publish(&*self.engine, text, value).unwrap()
    }

    fn history(&self, text: &str, since: Option<Position>, limit: usize) -> HistoryPage {
        wait(self.engine.history(HistoryQuery { filter: filter(text), since, limit })).unwrap()
    }

    /// Waits until the engine says that its server is away.
    fn wait_away(&self) {
        wait_until(|| !self.engine.status().is_available);
    }

    fn wait_available(&self) {
        wait(self.engine.connected()).unwrap();
    }

    /// Waits until a topic has as many clients, and returns them.
    fn wait_presence(&self, text: &str, count: usize) -> PresencePage {
        let page = || wait(self.engine.presence(&topic(text), 10_000)).unwrap();
        wait_until(|| page().count == count);
        page()
    }
}

/// Asks until something is true that another process does, up to a deadline.
#[allow(clippy::disallowed_methods, reason = "a limit for a wait for another process")]
fn wait_until(mut is_true: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < DEADLINE, "not in time");
        std::thread::yield_now();
    }
}
