//! The engines, each against the same suite, and each against what it promises beyond it.

mod engine_suite;
mod memory_engine;
mod nats_engine;
mod redis_engine;

use std::sync::Arc;

use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::memory::MemoryEngine;
use waterwheel_gateway::engine::{Engine, EngineSink};

use engine_suite::{EngineFixture, engine_suite};
use nats_engine::{NatsCluster, NatsWithStream, NatsWithoutStream};
use redis_engine::{Redis, RedisCluster};

/// The engine in memory: every one is a store of its own.
struct Memory;

impl EngineFixture for Memory {
    fn start() -> Self {
        Self
    }

    fn engine(&self, limits: HistoryLimits, sink: Arc<dyn EngineSink>) -> Arc<dyn Engine> {
        Arc::new(MemoryEngine::new(limits, sink))
    }
}

engine_suite!(memory, Memory);
engine_suite!(redis, Redis);
engine_suite!(redis_cluster, RedisCluster);
engine_suite!(nats, NatsWithStream);
engine_suite!(nats_cluster, NatsCluster);
engine_suite!(nats_without_jetstream, NatsWithoutStream);
