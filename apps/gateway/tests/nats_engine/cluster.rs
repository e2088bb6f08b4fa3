//! Three servers in a cluster, each publication on all of them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::Signal;
use waterwheel::channel::EventLoopGroup;
use waterwheel::net::Auto;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::nats::NatsEngine;
use waterwheel_gateway::engine::nats::options::NatsOptions;
use waterwheel_gateway::engine::{Engine, EngineSink};

use super::server::{NatsServer, free_address, has_nats};
use super::test_gateway::{Gateway, options, wait_until};
use crate::engine_suite::{EngineFixture, number, publish, wait};

/// Starts three servers that know each other.
fn start_cluster() -> Vec<NatsServer> {
    let routes: Vec<_> = (0..3).map(|_| free_address()).collect();
    let all = routes.iter().map(|route| format!("nats://{route}")).collect::<Vec<_>>().join(", ");
    let mut servers: Vec<_> = (0..3)
        .map(|n| {
            let config = format!(
                "server_name: n{n}\njetstream {{ store_dir: \"DIR/store\" }}\nlame_duck_duration: 30s\n\
                 lame_duck_grace_period: 10s\ncluster {{ name: wheel, listen: \"{}\", routes: [{all}] }}\n",
                routes[n]
            );
            NatsServer::at(free_address(), &config)
        })
        .collect();
    servers.iter_mut().for_each(NatsServer::run);
    servers
}

/// Three servers and the loops of the engines over them, for the suite. Tests that run at the same time share the servers: each has
/// a prefix of its own.
pub(crate) struct NatsCluster {
    /// Dropped first: the engines end with their loops.
    loops: EventLoopGroup,
    servers: Arc<Vec<NatsServer>>,
    prefix: String,
}

impl EngineFixture for NatsCluster {
    fn is_installed() -> bool {
        has_nats()
    }

    fn start() -> Self {
        static SHARED: Mutex<(Weak<Vec<NatsServer>>, u32)> = Mutex::new((Weak::new(), 0));
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let (servers, tests) = &mut *shared;
        *tests += 1;
        let prefix = format!("test-{tests}");
        let running = servers.upgrade().unwrap_or_else(|| Arc::new(start_cluster()));
        *servers = Arc::downgrade(&running);
        drop(shared);
        let loops = EventLoopGroup::builder(Auto).threads(1).name("nats-cluster").build().unwrap();
        Self { loops, servers: running, prefix }
    }

    fn engine(&self, limits: HistoryLimits, sink: Arc<dyn EngineSink>) -> Arc<dyn Engine> {
        let prefix = self.prefix.clone();
        let options = NatsOptions::new(self.servers[0].url().parse().unwrap());
        let options = NatsOptions { replicas: 3, prefix, ..options };
        let engine = NatsEngine::open(options, limits, &self.loops, sink).unwrap();
        // A cluster that has just begun chooses its leader first.
        wait_until(|| wait(engine.connected()).is_ok(), || engine.status().description);
        Arc::new(engine)
    }
}

/// Starts an engine that is told of one server.
fn gateway_at(server: &NatsServer) -> Gateway {
    let gateway = Gateway::with_options(NatsOptions { replicas: 3, ..options(&server.url()) });
    gateway.wait_connected();
    gateway
}

/// Publishes one after the other until as many are acknowledged.
fn publish_all(gateway: &Gateway, values: std::ops::Range<u64>) {
    for n in values {
        wait_until(
            || publish(&*gateway.engine, "a", n).is_ok(),
            || gateway.engine.status().description,
        );
    }
}

fn server_of<'a>(gateway: &Gateway, servers: &'a mut [NatsServer]) -> &'a mut NatsServer {
    let description = gateway.engine.status().description;
    let is_named = |server: &&mut NatsServer| description.contains(&server.address.to_string());
    servers.iter_mut().find(is_named).unwrap_or_else(|| panic!("{description}"))
}

#[test]
fn g08_a_cluster_of_three_loses_a_server_and_nothing_that_was_acknowledged() {
    if !has_nats() {
        return;
    }
    let mut servers = start_cluster();
    let gateway = gateway_at(&servers[0]);
    gateway.subscribe("a");
    publish_all(&gateway, 0..50);
    // The one that it knows by its URL; the others it has been told of.
    let lost = server_of(&gateway, &mut servers);
    assert!(lost.address == gateway_address(&gateway));
    lost.kill();
    let status = || gateway.engine.status();
    wait_until(|| status().reconnects == 1, || status().description);
    publish_all(&gateway, 50..100);
    gateway.sink.wait_for("a", 99);
    let received: HashSet<_> = gateway.sink.publications().iter().map(|p| number(p)).collect();
    assert!((0..100).all(|n| received.contains(&n)));
    assert!(gateway.sink.wait_gaps(0).is_empty(), "{:?}", gateway.sink.wait_gaps(0));
    let handed = gateway.sink.publications();
    assert!(handed.is_sorted_by(|a, b| b.position.is_after(a.position)));
    // A gateway that comes later, at another server.
    let other = servers.iter().find(|server| server.is_running()).unwrap();
    let later = gateway_at(other);
    assert_eq!(later.history("a", None).publications, handed);
}

fn gateway_address(gateway: &Gateway) -> std::net::SocketAddr {
    let description = gateway.engine.status().description;
    let (_, address) = description.rsplit_once(" at ").unwrap();
    address.parse().unwrap()
}

#[test]
fn g08_a_server_that_announces_its_end_is_left_for_another() {
    if !has_nats() {
        return;
    }
    let mut servers = start_cluster();
    let gateway = gateway_at(&servers[1]);
    gateway.subscribe("a");
    publish_all(&gateway, 0..10);
    let before = gateway_address(&gateway);
    let ending = server_of(&gateway, &mut servers);
    ending.signal(Signal::USR2);
    wait_until(|| gateway.engine.status().reconnects == 1, || gateway.engine.status().description);
    assert_ne!(gateway_address(&gateway), before);
    publish_all(&gateway, 10..20);
    gateway.sink.wait_for("a", 19);
    assert!(gateway.sink.wait_gaps(0).is_empty());
    wait(gateway.engine.close()).unwrap();
}
