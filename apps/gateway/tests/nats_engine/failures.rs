//! Contract 6: servers that are killed, stopped, or lose their stream.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::nats::NatsEngine;
use waterwheel_gateway::engine::nats::options::NatsOptions;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::{Engine, HistoryQuery};

use super::server::{NatsServer, has_nats};
use super::test_gateway::{Gateway, options, wait_until};
use crate::engine_suite::{
    SinkCall, filter, is_unavailable, json, member, number, publish, topic, wait,
};

#[test]
fn g08_nats_that_is_killed_and_started_again_goes_on_without_a_gap() {
    if !has_nats() {
        return;
    }
    let mut server = NatsServer::start();
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    let positions: Vec<_> = (0..10).map(|n| gateway.publish("a", n)).collect();
    server.kill();
    gateway.wait_away();
    let query = HistoryQuery { filter: filter("a"), since: None, limit: 1 };
    let failures = [
        publish(&*gateway.engine, "a", 99).map(drop),
        wait(gateway.engine.subscribe(&filter("b"))).map(drop),
        wait(gateway.engine.history(query)).map(drop),
        wait(gateway.engine.presence(&topic("a"), 1)).map(drop),
        wait(gateway.engine.topics(1)).map(drop),
    ];
    for failure in failures {
        assert!(is_unavailable(&failure.unwrap_err()));
    }
    server.run();
    gateway.wait_connected();
    let after = gateway.publish("a", 10);
    assert!(after.is_after(positions[9]), "{after} {}", positions[9]);
    gateway.sink.wait_for("a", 10);
    let page = gateway.history("a", Some(positions[4]));
    assert!(!page.has_gap && page.publications.iter().map(|p| number(p)).eq(5..=10));
    assert_eq!(gateway.engine.status().reconnects, 1);
    assert!(gateway.sink.calls().iter().all(|call| matches!(call, SinkCall::Publication(_))));
}

#[test]
fn g08_a_gateway_that_comes_after_a_restart_reads_what_was_published_before_it() {
    if !has_nats() {
        return;
    }
    let mut server = NatsServer::start();
    let limits = HistoryLimits::builder().topic_publications(5).build().unwrap();
    let before = Gateway::with_limits(options(&server.url()), limits);
    before.wait_connected();
    let positions: Vec<_> = (0..20).map(|n| before.publish("a", n)).collect();
    before.publish("quiet", 20);
    server.kill();
    server.run();
    let after = Gateway::with_limits(options(&server.url()), limits);
    after.wait_connected();
    for (since, is_gap) in [(13, true), (14, false), (17, false)] {
        let page = after.history("a", Some(positions[since]));
        assert_eq!(page.has_gap, is_gap, "{since}");
        let expected = (since as u64 + 1).max(15)..20;
        assert!(page.publications.iter().map(|p| number(p)).eq(expected));
    }
    assert!(!after.history("quiet", Some(positions[19])).has_gap);
    assert!(
        after.sink.calls().is_empty(),
        "of what was published before, the sink is told nothing"
    );
}

#[test]
fn g08_stopped_nats_is_noticed_and_calls_fail_in_time() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    let last = gateway.publish("a", 0);
    server.stop();
    let pending: Vec<_> = (1..50).map(|n| gateway.engine.publish(vec![json("a", n)])).collect();
    let subscribed = gateway.engine.subscribe(&filter("b"));
    for future in pending {
        let failed = wait(future).and_then(|mut results| results.remove(0)).unwrap_err();
        assert!(is_unavailable(&failed), "{failed}");
    }
    assert!(is_unavailable(&wait(subscribed).unwrap_err()));
    gateway.wait_away();
    server.signal(Signal::CONT);
    gateway.wait_connected();
    // What the server had read before it stopped is published or not; what is, is handed on in order.
    let end = gateway.publish("a", 100);
    gateway.sink.wait_for("a", 100);
    let page = gateway.history("a", Some(last));
    assert!(!page.has_gap && page.publications.is_sorted_by_key(|p| number(p)));
    let pushed = gateway.sink.publications();
    assert_eq!(pushed[1..], page.publications);
    assert_eq!(end.epoch, last.epoch);
}

#[test]
fn g08_slow_nats_is_waited_for_within_the_timeout() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    server.stop();
    let published = gateway.engine.publish(vec![json("a", 1)]);
    let subscribed = gateway.engine.subscribe(&filter("b"));
    let in_flight = || gateway.engine.status().in_flight;
    wait_until(|| in_flight() >= 2, || in_flight().to_string());
    server.signal(Signal::CONT);
    assert!(wait(published).unwrap().remove(0).is_ok() && wait(subscribed).is_ok());
    gateway.sink.wait_for("a", 1);
    assert_eq!(gateway.engine.status().reconnects, 0);
}

#[test]
fn g08_the_lag_grows_while_nats_is_stopped_and_falls_when_it_goes_on() {
    if !has_nats() {
        return;
    }
    const STALL: Duration = Duration::from_millis(300);
    let server = NatsServer::start();
    let slow = NatsOptions { timeout: Duration::from_secs(5), ..options(&server.url()) };
    let gateway = Gateway::with_options(slow);
    gateway.wait_connected();
    gateway.publish("a", 0);
    let lag = || gateway.engine.status().lag;
    let wait_lag = |is_reached: &dyn Fn(Duration) -> bool| {
        wait_until(|| lag().is_some_and(is_reached), || format!("{:?}", lag()));
    };
    wait_lag(&|lag| lag < STALL);
    server.stop();
    let published = gateway.engine.publish(vec![json("a", 1)]);
    wait_lag(&|lag| lag >= STALL);
    assert!(gateway.engine.status().is_available);
    server.signal(Signal::CONT);
    assert!(wait(published).unwrap().remove(0).is_ok());
    // A PING may have been under way as well: the next one is a measurement again.
    wait_lag(&|lag| lag < STALL);
    assert_eq!(gateway.engine.status().reconnects, 0);
}

#[test]
fn g08_the_lag_of_an_idle_gateway_is_measured_and_ends_with_its_nats() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let gateway = Gateway::start(&server);
    let status = || gateway.engine.status();
    wait_until(|| status().lag.is_some(), || status().description);
    server.stop();
    let grown = Duration::from_millis(200);
    wait_until(|| status().lag.is_some_and(|lag| lag >= grown), || format!("{:?}", status()));
    gateway.wait_away();
    assert_eq!(status().lag, None);
    server.signal(Signal::CONT);
    gateway.wait_connected();
    wait_until(|| status().lag.is_some(), || status().description);
}

#[test]
fn g08_a_deleted_stream_is_a_gap_and_a_new_epoch() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    let before = gateway.publish("a", 0);
    gateway.sink.wait_for("a", 0);
    let answer = server.request("$JS.API.STREAM.DELETE.waterwheel", "");
    assert!(answer.contains("\"success\":true"), "{answer}");
    assert_eq!(gateway.sink.wait_gaps(1), [Some(before)]);
    gateway.wait_connected();
    let page = gateway.history("a", Some(before));
    assert!(page.has_gap && page.publications.is_empty());
    let after = gateway.publish("a", 1);
    assert_ne!(after.epoch, before.epoch);
    gateway.sink.wait_for("a", 1);
    assert_eq!(gateway.engine.status().reconnects, 0);
}

/// The server begins again with files that are older than what it has acknowledged, as from a backup.
#[test]
fn g08_a_stream_that_has_lost_its_newest_gives_no_position_again() {
    if !has_nats() {
        return;
    }
    let mut server = NatsServer::start();
    let (one, two) = (Gateway::start(&server), Gateway::start(&server));
    one.subscribe("a");
    let kept = one.publish("a", 0);
    server.kill();
    server.save_files();
    server.run();
    one.wait_connected();
    let lost: Vec<_> = (1..5).map(|n| one.publish("a", n)).collect();
    one.sink.wait_for("a", 4);
    two.wait_connected();
    server.kill();
    one.wait_away();
    two.wait_away();
    server.restore_files();
    server.run();
    assert_eq!(one.sink.wait_gaps(1)[0], Some(lost[3]));
    one.wait_connected();
    two.wait_connected();
    for gateway in [&one, &two, &Gateway::start(&server)] {
        for since in [kept, lost[0], lost[3]] {
            let page = gateway.history("a", Some(since));
            assert!(page.has_gap && page.publications.iter().map(|p| number(p)).eq([0]));
        }
    }
    let after = two.publish("a", 5);
    assert_ne!(after.epoch, kept.epoch);
    one.sink.wait_for("a", 5);
}

#[test]
fn g08_a_purged_stream_is_a_gap_for_those_that_come_back() {
    if !has_nats() {
        return;
    }
    let mut server = NatsServer::start();
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    let first = gateway.publish("a", 0);
    gateway.publish("a", 1);
    gateway.sink.wait_for("a", 1);
    server.request("$JS.API.STREAM.PURGE.waterwheel", "");
    server.kill();
    gateway.wait_away();
    server.run();
    let later = Gateway::start(&server);
    assert!(later.history("a", Some(first)).has_gap);
    gateway.wait_connected();
    assert!(!gateway.history("a", Some(first)).has_gap, "it has read what was purged");
}

#[test]
fn g08_without_jetstream_what_is_missed_is_told_as_a_gap() {
    if !has_nats() {
        return;
    }
    let mut server = NatsServer::with_config("");
    let gateway = Gateway::start(&server);
    gateway.subscribe("a");
    let before = gateway.publish("a", 0);
    server.kill();
    gateway.wait_away();
    server.run();
    gateway.wait_connected();
    assert_eq!(gateway.sink.wait_gaps(1), [Some(before)]);
    assert!(gateway.history("a", Some(before)).has_gap);
    let after = gateway.publish("a", 1);
    assert!(after.is_after(before));
    gateway.sink.wait_for("a", 1);
    let other = Gateway::start(&server);
    assert!(other.history("a", Some(before)).has_gap, "a position of another gateway");
}

#[test]
fn g08_clients_stay_present_while_nats_is_away() {
    if !has_nats() {
        return;
    }
    let mut server = NatsServer::start();
    let (one, two) = (Gateway::start(&server), Gateway::start(&server));
    one.engine.enter(&topic("room"), &member("c1", None));
    two.wait_presence("room", 1);
    server.kill();
    one.wait_away();
    two.wait_away();
    one.engine.enter(&topic("room"), &member("c2", Some("ann")));
    one.engine.leave(&topic("room"), "c1");
    server.run();
    one.wait_connected();
    two.wait_connected();
    two.sink.wait_until(|calls| {
        let of = |call: &SinkCall| match call {
            SinkCall::Presence { member, is_present, .. } => {
                Some((member.client.to_string(), *is_present))
            }
            _ => None,
        };
        let told: Vec<_> = calls.iter().filter_map(of).collect();
        told.contains(&("c1".to_owned(), false)) && told.contains(&("c2".to_owned(), true))
    });
    assert_eq!(two.wait_presence("room", 1).clients, [member("c2", Some("ann"))]);
}

/// Publishes while the server is killed and started again, and compares what was acknowledged with what two gateways were given.
/// `WATERWHEEL_RESTART_PUBLICATIONS` sets how many publications are acknowledged at least.
#[test]
fn g08_nothing_that_nats_acknowledged_is_lost_over_ten_restarts() {
    if !has_nats() {
        return;
    }
    const RESTARTS: usize = 10;
    let total = std::env::var("WATERWHEEL_RESTART_PUBLICATIONS");
    let total: usize = total.map_or(3_000, |number| number.parse().unwrap());
    let mut server = NatsServer::start();
    let limits = HistoryLimits::builder().topic_publications(usize::MAX).topic_bytes(1 << 30);
    let limits = limits.total_bytes(1 << 30).build().unwrap();
    let (one, two) = (
        Gateway::with_limits(options(&server.url()), limits),
        Gateway::with_limits(options(&server.url()), limits),
    );
    for gateway in [&one, &two] {
        gateway.wait_connected();
        gateway.subscribe("t.>");
    }
    let is_done = AtomicBool::new(false);
    let acknowledged: Mutex<Vec<Position>> = Mutex::default();
    thread::scope(|scope| {
        for publisher in 0..4 {
            let engine = if publisher % 2 == 0 { &one.engine } else { &two.engine };
            let (is_done, acknowledged) = (&is_done, &acknowledged);
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
            server.run();
            one.wait_connected();
            two.wait_connected();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let acknowledged: HashSet<_> = acknowledged.into_inner().unwrap().into_iter().collect();
    assert!(acknowledged.len() >= total);
    for gateway in [&one, &two] {
        let last = gateway.publish("t.last", 0);
        gateway.sink.wait_until(|calls| {
            calls
                .iter()
                .rev()
                .any(|call| matches!(call, SinkCall::Publication(p) if p.position == last))
        });
        assert!(gateway.sink.wait_gaps(0).is_empty(), "nothing was missed");
        let handed = gateway.sink.replay_with_history(&*gateway.engine, "t.>");
        assert!(handed.is_sorted_by(|a, b| b.is_after(*a)), "in order, each once");
        let handed: HashSet<_> = handed.into_iter().collect();
        let lost = acknowledged.difference(&handed).count();
        println!("{} acknowledged, {lost} lost, {RESTARTS} restarts", acknowledged.len());
        assert_eq!(lost, 0);
        assert_eq!(gateway.engine.status().reconnects, RESTARTS as u64);
    }
}

fn publish_until(
    engine: &NatsEngine,
    publisher: usize,
    is_done: &AtomicBool,
    acknowledged: &Mutex<Vec<Position>>,
) {
    let mut n = 0;
    while !is_done.load(Ordering::Relaxed) {
        let batch = (0..10).map(|i| json(&format!("t.{publisher}"), n + i)).collect();
        n += 10;
        match wait(engine.publish(batch)) {
            Ok(results) => {
                let failed = results.iter().find_map(|result| result.clone().err());
                assert!(failed.as_ref().is_none_or(is_unavailable), "{failed:?}");
                acknowledged.lock().unwrap().extend(results.into_iter().flatten());
            }
            Err(error) => {
                assert!(is_unavailable(&error), "{error}");
                let _ = wait(engine.connected());
            }
        }
    }
}
