//! Redis Cluster: the slot of a prefix is moved to another node, key by key, while gateways publish.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use waterwheel_gateway::engine::Engine;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::redis::RedisEngine;

use super::cluster::Cluster;
use super::server::{RedisServer, is_redis_installed};
use super::{Gateway, wait_until};
use crate::engine_suite::{is_unavailable, number, publish, wait};

/// Keys that are moved at a time.
const KEYS_PER_MOVE: usize = 3;

/// Publications that are acknowledged before the move, and again after it.
const PUBLICATIONS: usize = 300;

/// A slot on its way from one node to another.
struct SlotMove<'a> {
    slot: String,
    from: &'a RedisServer,
    to: &'a RedisServer,
}

impl<'a> SlotMove<'a> {
    fn begin(prefix: &str, from: &'a RedisServer, to: &'a RedisServer) -> Self {
        let slot = from.cli(&["CLUSTER", "KEYSLOT", &format!("{{{prefix}}}:meta")]);
        let [from_id, to_id] = [from, to].map(|node| node.cli(&["CLUSTER", "MYID"]));
        let set = |node: &RedisServer, state, id: &str| {
            assert_eq!(node.cli(&["CLUSTER", "SETSLOT", &slot, state, id]), "OK");
        };
        set(to, "IMPORTING", &from_id);
        set(from, "MIGRATING", &to_id);
        Self { slot, from, to }
    }

    /// Moves a few keys. Returns false if none is left.
    fn move_some(&self) -> bool {
        let count = KEYS_PER_MOVE.to_string();
        let keys = self.from.cli(&["CLUSTER", "GETKEYSINSLOT", &self.slot, &count]);
        let keys: Vec<_> = keys.lines().collect();
        if !keys.is_empty() {
            self.move_keys(&keys);
        }
        !keys.is_empty()
    }

    fn move_keys(&self, keys: &[&str]) {
        let address = self.to.host_and_port();
        let (host, port) = address.split_once(':').unwrap();
        let command = ["MIGRATE", host, port, "", "0", "5000", "KEYS"];
        assert_eq!(self.from.cli(&[&command[..], keys].concat()), "OK");
    }

    fn end(self, nodes: &[RedisServer]) {
        let id = self.to.cli(&["CLUSTER", "MYID"]);
        // The new owner first, as the documentation of Redis wants it.
        for node in [self.to].into_iter().chain(nodes) {
            assert_eq!(node.cli(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]), "OK");
        }
    }
}

#[test]
fn g08_nothing_acknowledged_is_lost_while_a_slot_is_moved_under_publications() {
    if !is_redis_installed() {
        return;
    }
    let cluster = Cluster::start();
    let owner = cluster.owner_of("p");
    let target = (owner + 1) % 3;
    let limits = HistoryLimits::builder().topic_publications(usize::MAX).build().unwrap();
    let start = |node| Gateway::with_limits(cluster.options(node, "p"), limits);
    let gateways = [start(owner), start(target)];
    for gateway in &gateways {
        gateway.subscribe("t.*");
    }
    let before = gateways[0].publish("t.before", u64::MAX);
    let (is_done, next) = (AtomicBool::new(false), AtomicU64::new(0));
    let acknowledged: Mutex<BTreeSet<u64>> = Mutex::default();
    let count = || acknowledged.lock().unwrap().len();
    thread::scope(|scope| {
        for gateway in &gateways {
            let (is_done, next, acknowledged) = (&is_done, &next, &acknowledged);
            scope.spawn(move || publish_until(is_done, &gateway.engine, next, acknowledged));
        }
        wait_until(|| count() >= PUBLICATIONS);
        let moving = SlotMove::begin("p", &cluster.nodes[owner], &cluster.nodes[target]);
        while moving.move_some() {}
        // The old owner has no key of the slot left, and the new one does not have the slot yet.
        let refused = publish(&*gateways[0].engine, "t.0", u64::MAX).unwrap_err();
        assert!(is_unavailable(&refused), "{refused}");
        moving.end(&cluster.nodes);
        let moved = count();
        wait_until(|| count() >= moved + PUBLICATIONS);
        is_done.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    for gateway in &gateways {
        gateway.wait_available();
        let address = cluster.nodes[target].host_and_port();
        assert!(gateway.engine.status().description.contains(&address));
        let page = gateway.history("t.*", None, usize::MAX);
        assert!(page.publications.is_sorted_by(|a, b| b.position.is_after(a.position)));
        let held: BTreeSet<u64> = page.publications.iter().map(|p| number(p)).collect();
        let lost: Vec<_> = acknowledged.difference(&held).collect();
        assert!(lost.is_empty(), "lost {lost:?} of {}", acknowledged.len());
        assert!(gateway.history("t.*", Some(before), 10).has_gap, "the move is told as a gap");
        assert!(!gateway.sink.wait_gaps(1).is_empty());
    }
}

/// A node that imports a slot takes a key that has not arrived for one that does not exist.
#[test]
fn g08_a_node_is_not_written_to_before_the_whole_slot_has_arrived() {
    if !is_redis_installed() {
        return;
    }
    let cluster = Cluster::start();
    let owner = cluster.owner_of("p");
    let (from, to) = (&cluster.nodes[owner], &cluster.nodes[(owner + 1) % 3]);
    let gateway = Gateway::with_options(cluster.options(owner, "p"));
    for n in 0..5 {
        gateway.publish("a", n);
    }
    let moving = SlotMove::begin("p", from, to);
    moving.move_keys(&["{p}:meta"]);
    assert!(from.cli(&["GET", "{p}:meta"]).starts_with("ASK "));
    let refused = publish(&*gateway.engine, "a", 5).unwrap_err();
    assert!(is_unavailable(&refused), "{refused}");
    gateway.wait_away();
    let arrived = to.cli(&["CLUSTER", "COUNTKEYSINSLOT", &moving.slot]);
    assert_eq!(arrived, "1", "the key that was moved, and none that a script has made");
    while moving.move_some() {}
    moving.end(&cluster.nodes);
    gateway.wait_available();
    gateway.publish("a", 6);
    let page = gateway.history("a", None, 100);
    assert!(page.publications.iter().map(|p| number(p)).eq([0, 1, 2, 3, 4, 6]));
}

/// Publishes numbers to ten topics, one after the other, and notes those that are acknowledged.
fn publish_until(
    is_done: &AtomicBool,
    engine: &RedisEngine,
    next: &AtomicU64,
    acknowledged: &Mutex<BTreeSet<u64>>,
) {
    while !is_done.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        match publish(engine, &format!("t.{}", number % 10), number) {
            Ok(_) => drop(acknowledged.lock().unwrap().insert(number)),
            Err(error) => {
                assert!(is_unavailable(&error), "{error}");
                let _ = wait(engine.connected());
            }
        }
    }
}
