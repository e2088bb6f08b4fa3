//! Contract 6: servers that are killed, restarted, stopped, slow, or emptied.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::redis::RedisEngine;
use waterwheel_gateway::engine::redis::options::RedisOptions;
use waterwheel_gateway::engine::{Engine, EngineError, HistoryQuery};

use super::Gateway;
use super::server::{Persistence, RedisServer, is_redis_installed};
use crate::engine_suite::{filter, is_unavailable, json, member, number, publish, topic, wait};

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

#[test]
fn g08_flushall_is_a_gap_without_a_reconnect() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let (one, two) = (Gateway::start(&server), Gateway::start(&server));
    two.subscribe("a");
    let before = one.publish("a", 0);
    two.sink.wait_for("a", 0);
    assert_eq!(server.cli(&["FLUSHALL"]), "OK");
    let after = one.publish("a", 1);
    assert_ne!(after.epoch, before.epoch);
    two.sink.wait_for("a", 1);
    assert_eq!(two.sink.wait_gaps(1), [Some(before)], "told before the publication");
    assert!(two.history("a", Some(before), 10).has_gap);
    assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    for n in 2..10 {
        one.publish("a", n);
    }
    two.sink.wait_for("a", 9);
    assert_eq!(one.engine.status().reconnects + two.engine.status().reconnects, 0);
}

#[test]
fn g08_a_stopped_server_is_noticed_and_calls_fail_in_time() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let options = RedisOptions { timeout: Duration::from_millis(400), ..server.options() };
    let gateway = Gateway::with_options(options);
    gateway.subscribe("a");
    let last = gateway.publish("a", 0);
    server.set_stopped(true);
    let pending: Vec<_> = (1..50).map(|n| gateway.engine.publish(vec![json("a", n)])).collect();
    assert!(gateway.engine.status().in_flight >= 49);
    for future in pending {
        let failed = wait(future).and_then(|mut results| results.remove(0)).unwrap_err();
        assert!(is_unavailable(&failed), "{failed}");
    }
    gateway.wait_away();
    server.set_stopped(false);
    gateway.wait_available();
    gateway.sink.wait_gaps(1);
    // The server has read some of them before it answered to nobody: those are in the history, in order.
    let page = gateway.history("a", Some(last), 100);
    assert!(!page.has_gap && page.publications.is_sorted_by_key(|p| number(p)));
    gateway.publish("a", 100);
    gateway.sink.wait_for("a", 100);
}

#[test]
fn g08_a_slow_server_is_waited_for_within_the_timeout() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    let sleeping = thread::scope(|scope| {
        let cli = scope.spawn(|| server.cli(&["DEBUG", "SLEEP", "0.7"]));
        let pending: Vec<_> =
            (0..100).map(|n| gateway.engine.publish(vec![json("a", n)])).collect();
        for future in pending {
            wait(future).unwrap().remove(0).unwrap();
        }
        cli.join().unwrap()
    });
    assert_eq!(sleeping, "OK");
    gateway.sink.wait_for("a", 99);
    assert_eq!(gateway.engine.status().reconnects, 0);
}

#[test]
fn g08_calls_beyond_the_limit_are_refused_at_once() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let gateway = Gateway::start(&server);
    server.set_stopped(true);
    let mut pending = Vec::new();
    let refused = loop {
        let future = gateway.engine.publish(vec![json("a", pending.len())]);
        assert!(pending.len() < 20_000, "no limit");
        if gateway.engine.status().in_flight >= 16_384 {
            drop(future);
            break wait(gateway.engine.publish(vec![json("a", 0)])).unwrap_err();
        }
        pending.push(future);
    };
    assert!(is_unavailable(&refused) && refused.to_string().contains("16384"), "{refused}");
    server.set_stopped(false);
    for future in pending {
        wait(future).unwrap().remove(0).unwrap();
    }
    assert_eq!(gateway.engine.status().reconnects, 0);
}

#[test]
fn g08_a_publication_that_is_too_long_is_refused_and_the_others_of_its_batch_are_not() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let gateway = Gateway::start(&server);
    let long = format!("\"{}\"", "x".repeat(5 << 20));
    let batch = vec![json("a", 0), json("a", long), json("a", 2)];
    let results = wait(gateway.engine.publish(batch)).unwrap();
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(matches!(&results[1], Err(EngineError::Refused { .. })), "{:?}", results[1]);
    let held = gateway.history("a", None, 10).publications;
    assert!(held.iter().map(|p| number(p)).eq([0, 2]));
    assert!(results[2].as_ref().unwrap().is_after(*results[0].as_ref().unwrap()));
}

#[test]
fn g08_notes_of_presence_are_written_again_after_a_reconnect() {
    if !is_redis_installed() {
        return;
    }
    let mut server = RedisServer::start(Persistence::Nothing);
    let gateway = Gateway::start(&server);
    let room = topic("room");
    for n in 0..300 {
        gateway.engine.enter(&room, &member(&format!("c{n:03}"), Some("ann")));
    }
    assert_eq!(wait(gateway.engine.presence(&room, 1)).unwrap().count, 300);
    server.kill();
    gateway.wait_away();
    gateway.engine.leave(&room, "c000");
    gateway.engine.enter(&room, &member("c300", None));
    server.restart();
    gateway.wait_available();
    let page = gateway.wait_presence("room", 300);
    assert_eq!(&*page.clients[0].client, "c001");
    assert_eq!(page.clients[299], member("c300", None));
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
    let acknowledged: Mutex<Vec<Position>> = Mutex::default();
    thread::scope(|scope| {
        for publisher in 0..4 {
            let (engine, is_done, acknowledged) = (&one.engine, &is_done, &acknowledged);
            scope.spawn(move || publish_until(engine, publisher, is_done, acknowledged));
        }
        for restart in 1..=RESTARTS {
            let enough = total * restart / RESTARTS;
            while acknowledged.lock().unwrap().len() < enough {
                thread::yield_now();
            }
            server.kill();
            one.wait_away();
            two.wait_away();
            server.restart();
            one.wait_available();
            two.wait_available();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let acknowledged: HashSet<_> = acknowledged.into_inner().unwrap().into_iter().collect();
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

fn publish_until(
    engine: &Arc<RedisEngine>,
    publisher: usize,
    is_done: &AtomicBool,
    acknowledged: &Mutex<Vec<Position>>,
) {
    let mut n = 0;
    while !is_done.load(Ordering::Relaxed) {
        let batch = (0..10).map(|i| json(&format!("t.{publisher}"), n + i)).collect();
        n += 10;
        match wait(engine.publish(batch)) {
            Ok(results) => acknowledged.lock().unwrap().extend(results.into_iter().flatten()),
            Err(error) => {
                assert!(is_unavailable(&error), "{error}");
                let _ = wait(engine.connected());
            }
        }
    }
}
