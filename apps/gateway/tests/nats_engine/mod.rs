//! The engine over NATS, with processes of nats-server.

mod cluster;
mod failures;
mod figures;
mod gateways;
mod security;
mod server;
mod test_gateway;

use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::EventLoopGroup;
use waterwheel::net::Auto;
use waterwheel_gateway::config::engine_settings::{EngineKind, EngineSettings};
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::nats::NatsEngine;
use waterwheel_gateway::engine::nats::options::NatsOptions;
use waterwheel_gateway::engine::open::{check_engine, open_engine};
use waterwheel_gateway::engine::{Engine, EngineSink};

pub(crate) use self::cluster::NatsCluster;
use self::server::{JETSTREAM, NatsServer, has_nats};
use self::test_gateway::wait_until;
use crate::engine_suite::{EngineFixture, RecordingSink, wait};

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

#[test]
fn g08_the_settings_open_an_engine_over_nats() {
    if !has_nats() {
        return;
    }
    let store = NatsStore::start(JETSTREAM);
    let settings = EngineSettings {
        kind: EngineKind::Nats,
        url: Some(store.server.url()),
        ..EngineSettings::default()
    };
    let sink = Arc::new(RecordingSink::default());
    let open = |settings: &EngineSettings| {
        let (limits, timeout) = (HistoryLimits::default(), Duration::from_secs(5));
        open_engine(settings, limits, timeout, &store.loops, Arc::clone(&sink) as _)
    };
    let engine = open(&settings).unwrap();
    assert_eq!(engine.name(), "nats");
    wait_until(|| engine.status().is_available, || engine.status().description);
    wait(engine.close()).unwrap();
    assert!(check_engine(&settings).is_ok());
    let refused = |settings: EngineSettings| {
        let (checked, opened) =
            (check_engine(&settings).unwrap_err(), open(&settings).unwrap_err());
        assert_eq!(checked.to_string(), opened.to_string());
        opened.to_string()
    };
    let prefix = "a b".to_owned();
    assert!(refused(EngineSettings { prefix, ..settings.clone() }).contains("engine.prefix"));
    assert!(
        refused(EngineSettings { replicas: 0, ..settings.clone() }).contains("engine.replicas")
    );
    let no_url = refused(EngineSettings { url: None, ..settings });
    assert_eq!(no_url, "engine.url is not set: the engine nats has a server");
}
