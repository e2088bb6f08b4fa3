//! What the Redis engine promises beyond the suite, with real servers.

mod server;

use std::sync::Arc;

use waterwheel::channel::EventLoopGroup;
use waterwheel::net::Auto;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::redis::RedisEngine;
use waterwheel_gateway::engine::redis::options::RedisOptions;
use waterwheel_gateway::engine::{Engine, EngineSink};

use crate::engine_suite::{EngineFixture, wait};
use server::{Persistence, RedisServer, is_redis_installed};

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
        let options = RedisOptions::new(self.server.url().parse().unwrap());
        connect(options, limits, &self.loops, sink)
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
