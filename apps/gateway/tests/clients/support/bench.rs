//! A gateway in this process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel::channel::{
    Address, Channel, DrainOptions, Drained, EventLoopGroup, ServerBootstrap,
};
use waterwheel::executor::{Clock, Report, Reporter};
use waterwheel::http::{HttpServer, Router};
use waterwheel::net::{Auto, Tcp};
use waterwheel_gateway::access::config::{AccessConfig, Exposure};
use waterwheel_gateway::access::control::AccessControl;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::memory::MemoryEngine;
use waterwheel_gateway::engine::{Engine, EngineSink};
use waterwheel_gateway::metrics::counters::{GatewayCounters, GatewayCounts};
use waterwheel_gateway::protocols::ProtocolOptions;
use waterwheel_gateway::protocols::http::add_routes;
use waterwheel_gateway::protocols::lines::LineProtocol;
use waterwheel_gateway::session::core::{CoreParts, GatewayCore};
use waterwheel_gateway::session::limits::GatewayLimits;

use super::LIMIT;
use super::event_client::EventClient;
use super::gated_engine::{EngineGate, GatedEngine};
use super::line_client::LineClient;
use super::websocket_client::WebSocketClient;

/// The configuration of a gateway.
#[derive(Default)]
pub(crate) struct BenchConfig {
    pub(crate) limits: GatewayLimits,
    pub(crate) options: ProtocolOptions,
    pub(crate) access: AccessConfig,
    pub(crate) history: HistoryLimits,
    /// Holds the calls of the engine back.
    pub(crate) gate: Option<EngineGate>,
}

/// A gateway in this process.
pub(crate) struct Bench {
    pub(crate) core: Arc<GatewayCore>,
    pub(crate) http: SocketAddr,
    pub(crate) lines: SocketAddr,
    loops: EventLoopGroup,
    reports: Reports,
}

/// Collects reports.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<String>>>);

impl Reporter for Reports {
    fn report(&self, report: &Report<'_>) {
        self.0.lock().unwrap().push(report.fault.to_string());
    }
}

impl Bench {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// Starts a gateway with a changed configuration.
    pub(crate) fn with(change: impl FnOnce(&mut BenchConfig)) -> Self {
        let mut config = BenchConfig::default();
        // The clients of tests do not answer a Close.
        config.options.close_timeout = Duration::from_millis(100);
        change(&mut config);
        let reports = Reports::default();
        let reporter: Arc<dyn Reporter> = Arc::new(reports.clone());
        let access = AccessControl::new(&config.access, Exposure::Loopback, &reporter).unwrap();
        let parts = CoreParts {
            access: Arc::new(access),
            counters: Arc::new(GatewayCounters::default()),
            limits: config.limits,
        };
        let (history, gate) = (config.history, config.gate.clone());
        let open = |sink: Arc<dyn EngineSink>| {
            let memory = MemoryEngine::new(history, sink);
            let engine: Arc<dyn Engine> = match gate {
                Some(gate) => Arc::new(GatedEngine::new(memory, gate)),
                None => Arc::new(memory),
            };
            Ok(engine)
        };
        let core = GatewayCore::new(parts, open).unwrap();
        let loops = EventLoopGroup::builder(Auto).threads(2).reporter(reporter).build().unwrap();
        let (routes_core, options) = (core.clone(), config.options.clone());
        let routes = move || {
            let router = add_routes(Router::builder(), &routes_core, &options);
            router.build().expect("the routes are valid")
        };
        let server =
            HttpServer::per_loop(routes).linger(Duration::from_millis(100)).build().unwrap();
        let http = server.bind(&loops, Tcp, "127.0.0.1:0").join().unwrap();
        let protocol = LineProtocol::new(&core, &config.options);
        let lines = ServerBootstrap::new(&loops, Tcp)
            .child_allow_half_closure(true)
            .child_initialiser(move |edit| protocol.add_handlers(edit))
            .bind("127.0.0.1:0")
            .join()
            .unwrap();
        let (http, lines) = (address(&http), address(&lines));
        Self { core, http, lines, loops, reports }
    }

    pub(crate) fn websocket(&self) -> WebSocketClient {
        WebSocketClient::connect(self.http, "/ws", "")
    }

    pub(crate) fn line_client(&self) -> LineClient {
        let mut client = LineClient::connect(self.lines);
        client.expect("HELLO HELP lists the commands");
        client
    }

    pub(crate) fn events(&self, query: &str) -> EventClient {
        EventClient::connect(self.http, &format!("/events?{query}"), "")
    }

    pub(crate) fn counts(&self) -> GatewayCounts {
        self.core.counters().counts()
    }

    /// Waits until the counters satisfy a condition.
    pub(crate) fn wait_for(&self, what: &str, is_met: impl Fn(&GatewayCounts) -> bool) {
        let begun = Clock::Monotonic.now();
        while !is_met(&self.counts()) {
            let waited = Clock::Monotonic.now().since(begun);
            assert!(waited < LIMIT, "{what}: {:?}", self.counts());
            std::thread::yield_now();
        }
    }

    /// Runs the drain of the core on a loop, and waits for it.
    pub(crate) fn drain_core(&self) {
        let core = self.core.clone();
        let event_loop = self.loops.next();
        event_loop.spawn_with(move || async move { core.drain().await }).unwrap().join().unwrap();
    }

    /// Drains the gateway; asserts that no client is left, and nothing but refused tokens was reported.
    pub(crate) fn end(self) {
        self.drain_core();
        let options = DrainOptions::within(LIMIT).shutdown(Duration::ZERO, LIMIT).unwrap();
        assert_eq!(self.loops.drain(options).join().unwrap(), Drained::Complete);
        self.loops.termination().join().unwrap();
        assert_eq!(self.core.clients(), 0, "no client is left");
        assert_eq!(self.counts().subscriptions, 0, "no subscription is left");
        let mut reports = self.reports.0.lock().unwrap();
        reports.retain(|report| !report.starts_with("a client at 127.0.0.1 was refused: "));
        assert_eq!(*reports, Vec::<String>::new(), "nothing but refused tokens was reported");
    }
}

fn address(server: &Channel) -> SocketAddr {
    match server.local_address() {
        Some(Address::Ip(address)) => address,
        other => panic!("{other:?}"),
    }
}
