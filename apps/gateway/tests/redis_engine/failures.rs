//! Contract 6: servers that are stopped, slow, full of work, or emptied.

use std::thread;
use std::time::Duration;

use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::redis::options::RedisOptions;
use waterwheel_gateway::engine::{Engine, EngineError, HistoryQuery};

use super::server::{Persistence, RedisServer, is_redis_installed};
use super::{Gateway, wait_until};
use crate::engine_suite::{
    filter, is_unavailable, json, member, number, poll_once, publish, topic, wait,
};

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
    // The server may have read some of them before the connection ended: those are in the history, in order.
    let page = gateway.history("a", Some(last), 100);
    assert!(!page.has_gap && page.publications.is_sorted_by_key(|p| number(p)));
    gateway.publish("a", 100);
    gateway.sink.wait_for("a", 100);
}

#[test]
fn g08_the_lag_grows_while_a_server_is_stopped_and_falls_when_it_goes_on() {
    if !is_redis_installed() {
        return;
    }
    const STALL: Duration = Duration::from_millis(300);
    let server = RedisServer::start(Persistence::Nothing);
    let gateway = Gateway::start(&server);
    let lag = || gateway.engine.status().lag;
    gateway.publish("a", 0);
    wait_until(|| lag().is_some_and(|lag| lag < STALL));
    server.set_stopped(true);
    let published = gateway.engine.publish(vec![json("a", 1)]);
    wait_until(|| lag().is_some_and(|lag| lag >= STALL));
    assert!(gateway.engine.status().is_available);
    server.set_stopped(false);
    wait(published).unwrap().remove(0).unwrap();
    // A beat may have been under way as well: the next one is a measurement again.
    wait_until(|| lag().is_some_and(|lag| lag < STALL));
    assert_eq!(gateway.engine.status().reconnects, 0);
}

#[test]
fn g08_the_lag_of_an_idle_gateway_is_measured_and_ends_with_its_server() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let options = RedisOptions { timeout: Duration::from_secs(2), ..server.options() };
    let gateway = Gateway::with_options(options);
    let lag = || gateway.engine.status().lag;
    wait_until(|| lag().is_some());
    server.set_stopped(true);
    wait_until(|| lag().is_some_and(|lag| lag >= Duration::from_millis(200)));
    gateway.wait_away();
    assert_eq!(lag(), None);
    server.set_stopped(false);
    gateway.wait_available();
    wait_until(|| lag().is_some());
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
fn g08_a_server_without_memory_refuses_publications_and_keeps_the_connection() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    gateway.publish("a", 0);
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let refused = publish(&*gateway.engine, "a", 1).unwrap_err();
    assert!(is_unavailable(&refused) && refused.to_string().contains("OOM"), "{refused}");
    assert_eq!(gateway.history("a", None, 10).publications.len(), 1, "reading goes on");
    // Some beats are refused meanwhile.
    let beats = || server.cli(&["INFO", "errorstats"]);
    wait_until(|| beats().contains("errorstat_OOM:count=3"));
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    gateway.publish("a", 2);
    gateway.sink.wait_for("a", 2);
    assert_eq!(gateway.engine.status().reconnects, 0);
}

/// Redis ends the connection of a subscriber that does not read; what it has missed is in the history.
#[test]
fn g08_a_gateway_that_does_not_read_is_disconnected_and_fills_the_gap() {
    if !is_redis_installed() {
        return;
    }
    const PUBLICATIONS: u64 = 300;
    let server = RedisServer::start(Persistence::Nothing);
    let limit = "pubsub 4mb 4mb 60";
    assert_eq!(server.cli(&["CONFIG", "SET", "client-output-buffer-limit", limit]), "OK");
    let limits = HistoryLimits::builder().topic_bytes(64 << 20).build().unwrap();
    let one = Gateway::with_limits(server.options(), limits);
    let two = Gateway::with_limits(server.options(), limits);
    two.subscribe("a");
    {
        // The loop of the second gateway waits for the sink.
        let _stalled = two.sink.calls();
        for n in 0..PUBLICATIONS {
            one.publish("a", format!("[{n},\"{}\"]", "x".repeat(100_000)));
        }
        let clients = || server.cli(&["CLIENT", "LIST", "TYPE", "pubsub"]);
        wait_until(|| clients().is_empty());
    }
    two.sink.wait_gaps(1);
    let handed = two.sink.replay_with_history(&*two.engine, "a");
    assert!(handed.is_sorted_by(|a, b| b.is_after(*a)));
    assert_eq!(handed.len() as u64, PUBLICATIONS);
    assert!(two.sink.publications().len() < handed.len(), "some came by the history");
}

/// Redis works off a pipeline before it answers, and ends connections with too much output.
#[test]
fn g08_many_clients_that_resume_at_once_do_not_flood_the_connection() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let limit = "pubsub 8mb 8mb 60";
    assert_eq!(server.cli(&["CONFIG", "SET", "client-output-buffer-limit", limit]), "OK");
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    for n in 0..20 {
        gateway.publish("a", format!("[{n},\"{}\"]", "x".repeat(40_000)));
    }
    server.set_stopped(true);
    let query = || HistoryQuery { filter: filter("a"), since: None, limit: 100 };
    let mut questions: Vec<_> = (0..200).map(|_| gateway.engine.history(query())).collect();
    for question in &mut questions {
        assert!(poll_once(question).is_pending());
    }
    let mut dropped = questions.split_off(150);
    dropped.truncate(25);
    drop(dropped);
    server.set_stopped(false);
    for question in questions {
        assert_eq!(wait(question).unwrap().publications.len(), 20);
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
