//! Redis Cluster: three nodes, redirections, and the failover of the node that has the data.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use waterwheel::channel::EventLoopGroup;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::redis::options::RedisOptions;
use waterwheel_gateway::engine::{Engine, EngineSink};

use super::server::{RedisServer, is_redis_installed};
use super::{Gateway, connect, new_loops, wait_until};
use crate::engine_suite::{EngineFixture, is_unavailable, member, publish, topic};

/// Three nodes with the slots divided among them.
pub(super) struct Cluster {
    pub(super) nodes: Vec<RedisServer>,
}

impl Cluster {
    pub(super) fn start() -> Self {
        let nodes: Vec<_> = (0..3).map(|_| Self::start_node()).collect();
        let addresses: Vec<_> = nodes.iter().map(RedisServer::host_and_port).collect();
        let words = addresses.iter().map(String::as_str);
        Self::manage(&["--cluster", "create"].into_iter().chain(words).collect::<Vec<_>>());
        let cluster = Self { nodes };
        for node in &cluster.nodes {
            wait_until(|| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
        }
        cluster
    }

    fn start_node() -> RedisServer {
        let mut arguments = vec!["--save", "", "--cluster-enabled", "yes"];
        arguments.extend(["--cluster-node-timeout", "1000", "--cluster-announce-ip", "{address}"]);
        arguments.extend(["--bind-source-addr", "{address}", "--repl-diskless-sync-delay", "0"]);
        RedisServer::with_arguments(&arguments)
    }

    fn manage(arguments: &[&str]) {
        let mut command = Command::new("redis-cli");
        let output = command.args(arguments).arg("--cluster-yes").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {text}");
    }

    /// Returns the node that has the slot of a prefix.
    pub(super) fn owner_of(&self, prefix: &str) -> usize {
        let key = format!("{{{prefix}}}:meta");
        let owns = |node: &RedisServer| !node.cli(&["GET", &key]).contains("MOVED");
        self.nodes.iter().position(owns).unwrap()
    }

    /// Returns the options of an engine that knows one node only.
    pub(super) fn options(&self, node: usize, prefix: &str) -> RedisOptions {
        RedisOptions {
            prefix: prefix.to_owned(),
            timeout: Duration::from_secs(2),
            ..self.nodes[node].options()
        }
    }
}

/// A cluster that the tests of the suite share, each with a prefix of its own: their slots are on different nodes.
pub(crate) struct RedisCluster {
    cluster: Arc<Cluster>,
    loops: EventLoopGroup,
    prefix: String,
}

impl EngineFixture for RedisCluster {
    fn is_installed() -> bool {
        is_redis_installed()
    }

    fn start() -> Self {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        static PREFIXES: AtomicU32 = AtomicU32::new(0);
        let mut shared = SHARED.lock().unwrap();
        let cluster = shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Cluster::start());
            *shared = Arc::downgrade(&started);
            started
        });
        let prefix = format!("suite-{}", PREFIXES.fetch_add(1, Ordering::Relaxed));
        Self { cluster, loops: new_loops(), prefix }
    }

    fn engine(&self, limits: HistoryLimits, sink: Arc<dyn EngineSink>) -> Arc<dyn Engine> {
        connect(self.cluster.options(0, &self.prefix), limits, &self.loops, sink)
    }
}

#[test]
fn g08_a_redirection_of_a_cluster_is_followed_from_every_node() {
    if !is_redis_installed() {
        return;
    }
    let cluster = Cluster::start();
    let gateways: Vec<_> =
        (0..3).map(|node| Gateway::with_options(cluster.options(node, "p"))).collect();
    let owner = cluster.nodes[cluster.owner_of("p")].host_and_port();
    gateways[0].subscribe("a.*");
    for (n, gateway) in gateways.iter().enumerate() {
        gateway.publish("a.b", n);
        assert!(gateway.engine.status().description.contains(&owner));
    }
    let received = gateways[0].sink.wait_count(3);
    assert!(received.is_sorted_by(|a, b| b.position.is_after(a.position)));
    let shards = cluster.nodes[cluster.owner_of("p")].cli(&["PUBSUB", "SHARDCHANNELS"]);
    assert_eq!(shards, "{p}:s:a", "sharded channels, which other nodes are not told of");
}

#[test]
fn g08_the_failover_of_a_cluster_is_followed_and_its_gap_is_told() {
    if !is_redis_installed() {
        return;
    }
    let mut cluster = Cluster::start();
    let owner = cluster.owner_of("p");
    let master = cluster.nodes[owner].cli(&["CLUSTER", "MYID"]);
    let replica = Cluster::start_node();
    Cluster::manage(&[
        "--cluster",
        "add-node",
        &replica.host_and_port(),
        &cluster.nodes[owner].host_and_port(),
        "--cluster-slave",
        "--cluster-master-id",
        &master,
    ]);
    wait_until(|| replica.cli(&["INFO", "replication"]).contains("master_link_status:up"));
    // The node that the gateways are told to connect to stays.
    let known = (owner + 1) % 3;
    let gateway = Gateway::with_options(cluster.options(known, "p"));
    gateway.subscribe("a");
    gateway.engine.enter(&topic("a"), &member("c1", None));
    let before = gateway.publish("a", 0);
    cluster.nodes[owner].kill();
    gateway.wait_away();
    let refused = publish(&*gateway.engine, "a", 1).unwrap_err();
    assert!(is_unavailable(&refused), "{refused}");
    gateway.wait_available();
    assert!(gateway.engine.status().description.contains(&replica.host_and_port()));
    gateway.sink.wait_gaps(1);
    assert!(gateway.history("a", Some(before), 10).has_gap, "a replica may have less");
    let after = gateway.publish("a", 2);
    gateway.sink.wait_for("a", 2);
    assert!(after.epoch != before.epoch && after.sequence > before.sequence);
    gateway.wait_presence("a", 1);
}
