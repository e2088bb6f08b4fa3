//! Servers that are killed and restarted, with what they have kept.

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::redis::RedisEngine;
use waterwheel_gateway::engine::{Engine, HistoryQuery};

use super::Gateway;
use super::server::{Persistence, RedisServer, is_redis_installed};
use crate::engine_suite::{filter, is_unavailable, json, number, publish, wait};

#[test]
fn g08_a_restart_with_an_append_only_file_continues_the_epoch() {
    if !is_redis_installed() {
        return;
    }
    let mut server = RedisServer::start(Persistence::AppendOnlyFile);
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    let positions: Vec<_> = (0..10).map(|n| gateway.publish("a", n)).collect();
    server.kill();
    gateway.wait_away();
    let refused = publish(&*gateway.engine, "a", 99).unwrap_err();
    assert!(is_unavailable(&refused), "{refused}");
    assert!(is_unavailable(&wait(gateway.engine.subscribe(&filter("b"))).unwrap_err()));
    server.restart();
    gateway.wait_available();
    gateway.sink.wait_gaps(1);
    let after = gateway.publish("a", 10);
    assert!(after.is_after(positions[9]), "{after} {}", positions[9]);
    gateway.sink.wait_for("a", 10);
    let page = gateway.history("a", Some(positions[4]), 100);
    assert!(!page.has_gap);
    assert!(page.publications.iter().map(|p| number(p)).eq(5..=10));
    assert_eq!(gateway.engine.status().reconnects, 1);
}

#[test]
fn g08_a_restart_without_persistence_is_a_gap() {
    if !is_redis_installed() {
        return;
    }
    let mut server = RedisServer::start(Persistence::Nothing);
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    let before = gateway.publish("a", 0);
    server.kill();
    gateway.wait_away();
    server.restart();
    gateway.wait_available();
    let calls = gateway.sink.wait_gaps(1);
    assert_eq!(calls, [Some(before)]);
    let page = gateway.history("a", Some(before), 100);
    assert!(page.has_gap && page.publications.is_empty());
    let after = gateway.publish("a", 1);
    assert_ne!(after.epoch, before.epoch);
    gateway.sink.wait_for("a", 1);
}

/// The server loads a snapshot that is older than what it has acknowledged.
#[test]
fn g08_an_old_snapshot_is_a_gap_and_gives_no_position_again() {
    if !is_redis_installed() {
        return;
    }
    let mut server = RedisServer::with_arguments(&["--save", "3600 1000000"]);
    let gateway = Gateway::start(&server);
    let kept = gateway.publish("a", 0);
    assert_eq!(server.cli(&["SAVE"]), "OK");
    let lost = gateway.publish("a", 1);
    server.kill();
    gateway.wait_away();
    server.restart();
    gateway.wait_available();
    let page = gateway.history("a", Some(kept), 100);
    assert!(page.has_gap, "{kept} was before what was lost");
    assert!(gateway.history("a", Some(lost), 100).has_gap);
    assert!(page.publications.iter().map(|p| number(p)).eq([0]), "what the snapshot has");
    let after = gateway.publish("a", 2);
    assert!(after.sequence > lost.sequence && after.epoch != lost.epoch);
}

/// The end of the append-only file is lost, as after a power failure with `appendfsync everysec`.
#[test]
fn g08_an_append_only_file_that_has_lost_its_end_is_a_gap_for_all_gateways() {
    if !is_redis_installed() {
        return;
    }
    let mut server = RedisServer::start(Persistence::AppendOnlyFile);
    let (one, two) = (Gateway::start(&server), Gateway::start(&server));
    two.subscribe("b");
    let kept = one.publish("a", 0);
    let files = server.directory().join("appendonlydir");
    let copies: Vec<_> = fs::read_dir(files)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    let lost = one.publish("a", 1);
    server.kill();
    for (path, bytes) in copies {
        fs::write(path, bytes).unwrap();
    }
    one.wait_away();
    two.wait_away();
    server.restart();
    // Whichever comes first: the first gateway knows that publications are lost, the second one may not.
    one.wait_available();
    two.wait_available();
    one.sink.wait_gaps(1);
    for gateway in [&one, &two] {
        for position in [kept, lost] {
            assert!(gateway.history("a", Some(position), 10).has_gap, "{position}");
        }
    }
    let after = one.publish("b", 2);
    assert!(after.epoch != lost.epoch && after.sequence > lost.sequence);
    two.sink.wait_for("b", 2);
    assert!(!two.sink.wait_gaps(1).is_empty(), "told before the publication");
}

/// Publishes while the server is killed and restarted, and compares what was acknowledged with the history and with what
/// two gateways have got. `WATERWHEEL_RESTART_PUBLICATIONS` sets how many publications are acknowledged at least.
#[test]
fn g08_nothing_acknowledged_is_lost_over_ten_restarts_within_history() {
    if !is_redis_installed() {
        return;
    }
    const RESTARTS: usize = 10;
    let total = std::env::var("WATERWHEEL_RESTART_PUBLICATIONS");
    let total: usize = total.map_or(3_000, |number| number.parse().unwrap());
    let mut server = RedisServer::start(Persistence::AppendOnlyFile);
    let limits = HistoryLimits::builder()
        .topic_publications(usize::MAX)
        .topic_bytes(1 << 40)
        .total_bytes(1 << 40)
        .build()
        .unwrap();
    let one = Gateway::with_limits(server.options(), limits);
    let two = Gateway::with_limits(server.options(), limits);
    let begin = wait(two.engine.subscribe(&filter("t.>"))).unwrap();
    let is_done = AtomicBool::new(false);
    let acknowledged = Acknowledged::default();
    thread::scope(|scope| {
        for publisher in 0..4 {
            let (engine, is_done, acknowledged) = (&one.engine, &is_done, &acknowledged);
            scope.spawn(move || publish_until(engine, publisher, is_done, acknowledged));
        }
        for restart in 1..=RESTARTS {
            acknowledged.wait_for(total * restart / RESTARTS);
            server.kill();
            one.wait_away();
            two.wait_away();
            server.restart();
            one.wait_available();
            two.wait_available();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.positions.into_inner().unwrap();
    let acknowledged: HashSet<_> = acknowledged.into_iter().collect();
    assert!(acknowledged.len() >= total);
    // As a client that was never connected, by the history alone.
    let mut read = HashSet::new();
    let mut since = Some(begin);
    loop {
        let query = HistoryQuery { filter: filter("t.>"), since, limit: 10_000 };
        let page = wait(two.engine.history(query)).unwrap();
        assert!(!page.has_gap);
        since = page.publications.last().map(|p| p.position).or(since);
        read.extend(page.publications.iter().map(|p| p.position));
        if !page.has_more {
            break;
        }
    }
    let lost = acknowledged.difference(&read).count();
    println!("{} acknowledged, {lost} lost, {RESTARTS} restarts", acknowledged.len());
    assert_eq!(lost, 0);
    assert_eq!(two.engine.status().reconnects, RESTARTS as u64);
    // As a hub: what was pushed, and the history after each gap, in order and each once.
    let handed = two.sink.replay_with_history(&*two.engine, "t.>");
    assert!(handed.is_sorted_by(|a, b| b.is_after(*a)));
    let handed: HashSet<_> = handed.into_iter().collect();
    assert_eq!(acknowledged.difference(&handed).count(), 0);
}

/// The positions that were acknowledged so far.
#[derive(Default)]
struct Acknowledged {
    positions: Mutex<Vec<Position>>,
    changed: Condvar,
}

impl Acknowledged {
    fn extend(&self, positions: impl Iterator<Item = Position>) {
        self.positions.lock().unwrap().extend(positions);
        self.changed.notify_all();
    }

    fn wait_for(&self, count: usize) {
        let positions = self.positions.lock().unwrap();
        drop(self.changed.wait_while(positions, |positions| positions.len() < count).unwrap());
    }
}

fn publish_until(
    engine: &Arc<RedisEngine>,
    publisher: usize,
    is_done: &AtomicBool,
    acknowledged: &Acknowledged,
) {
    let mut n = 0;
    while !is_done.load(Ordering::Relaxed) {
        let batch = (0..10).map(|i| json(&format!("t.{publisher}"), n + i)).collect();
        n += 10;
        match wait(engine.publish(batch)) {
            Ok(results) => acknowledged.extend(results.into_iter().flatten()),
            Err(error) => {
                assert!(is_unavailable(&error), "{error}");
                let _ = wait(engine.connected());
            }
        }
    }
}
