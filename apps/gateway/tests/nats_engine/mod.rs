//! The engine over NATS, with processes of nats-server.

mod cluster;
mod failures;
mod gateways;
mod security;
mod server;
mod test_gateway;

use std::sync::Arc;

use waterwheel::channel::EventLoopGroup;
use waterwheel::net::Auto;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::nats::NatsEngine;
use waterwheel_gateway::engine::nats::options::NatsOptions;
use waterwheel_gateway::engine::{Engine, EngineSink};

use self::server::{JETSTREAM, NatsServer, has_nats};
use crate::engine_suite::{EngineFixture, wait};

/// A server of NATS and the loops of the engines over it, for the suite.
pub(crate) struct NatsStore {
    /// Dropped first: the engines end with their loops.
    loops: EventLoopGroup,
    server: NatsServer,
}

impl NatsStore {
    fn start(config: &str) -> Self {
        let loops = EventLoopGroup::builder(Auto).threads(1).name("nats-engine").build().unwrap();
        Self { loops, server: NatsServer::with_config(config) }
    }

    fn engine(&self, limits: HistoryLimits, sink: Arc<dyn EngineSink>) -> Arc<dyn Engine> {
        let options = NatsOptions::new(self.server.url().parse().unwrap());
        let engine = NatsEngine::open(options, limits, &self.loops, sink).unwrap();
        wait(engine.connected()).unwrap();
        Arc::new(engine)
    }
}

/// NATS with JetStream.
pub(crate) struct NatsWithStream(NatsStore);

impl EngineFixture for NatsWithStream {
    fn is_installed() -> bool {
        has_nats()
    }

    fn start() -> Self {
        Self(NatsStore::start(JETSTREAM))
    }

    fn engine(&self, limits: HistoryLimits, sink: Arc<dyn EngineSink>) -> Arc<dyn Engine> {
        self.0.engine(limits, sink)
    }
}

/// NATS without JetStream.
pub(crate) struct NatsWithoutStream(NatsStore);

impl EngineFixture for NatsWithoutStream {
    fn is_installed() -> bool {
        has_nats()
    }

    fn start() -> Self {
        Self(NatsStore::start(""))
    }

    fn engine(&self, limits: HistoryLimits, sink: Arc<dyn EngineSink>) -> Arc<dyn Engine> {
        self.0.engine(limits, sink)
    }
}
