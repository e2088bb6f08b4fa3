//! Several gateways with one Redis: order, presence, and what each of them subscribes to.

use std::thread;
use std::time::Duration;

use waterwheel_gateway::engine::Engine;
use waterwheel_gateway::engine::redis::options::RedisOptions;

use super::server::{Persistence, RedisServer, is_redis_installed};
use super::{Gateway, wait_until};
use crate::engine_suite::{SinkCall, filter, member, topic, wait};

#[test]
fn g08_gateways_see_the_publications_of_all_in_one_order() {
    if !is_redis_installed() {
        return;
    }
    const EACH: usize = 300;
    let server = RedisServer::start(Persistence::Nothing);
    let gateways: Vec<_> = (0..3).map(|_| Gateway::start(&server)).collect();
    gateways[0].subscribe(">");
    for text in ["t.0", "t.1", "t.2", "t.>"] {
        gateways[1].subscribe(text);
    }
    thread::scope(|scope| {
        for (n, gateway) in gateways.iter().enumerate() {
            scope.spawn(move || {
                for value in 0..EACH {
                    gateway.publish(&format!("t.{n}"), value);
                }
            });
        }
    });
    let positions = |gateway: &Gateway| -> Vec<_> {
        gateway.sink.wait_count(3 * EACH).iter().map(|p| p.position).collect()
    };
    let (first, second) = (positions(&gateways[0]), positions(&gateways[1]));
    assert!(first.is_sorted_by(|a, b| b.is_after(*a)), "over all topics");
    assert_eq!(first, second);
    assert_eq!(first.len(), 3 * EACH, "overlapping filters repeat nothing");
    assert!(gateways[2].sink.calls().is_empty(), "no filter, no message");
}

#[test]
fn g08_a_gateway_subscribes_once_to_what_its_filters_need() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let gateway = Gateway::start(&server);
    let channels = || {
        let mut channels: Vec<_> = server
            .cli(&["PUBSUB", "CHANNELS"])
            .lines()
            .map(|line| line.trim().trim_start_matches("{waterwheel}:").to_owned())
            .collect();
        channels.sort_unstable();
        channels.join(" ")
    };
    for text in ["chat.a", "chat.*", "chat.>", "news.*.x", "*.b", ">"] {
        gateway.subscribe(text);
    }
    assert_eq!(channels(), "a c:chat.a s:chat s:news");
    assert_eq!(server.cli(&["PUBSUB", "NUMPAT"]), "0");
    for text in ["chat.*", ">", "chat.a", "news.*.x"] {
        gateway.engine.unsubscribe(&filter(text));
    }
    wait(gateway.engine.presence(&topic("any"), 1)).unwrap();
    assert_eq!(channels(), "a s:chat");
}

#[test]
fn g08_presence_is_that_of_all_gateways_and_ends_with_a_gateway_that_dies() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let options = RedisOptions { presence: Duration::from_millis(1500), ..server.options() };
    let (one, two) =
        (Gateway::with_options(options.clone()), Gateway::with_options(options.clone()));
    one.subscribe("room");
    one.engine.enter(&topic("room"), &member("c1", Some("ann")));
    one.wait_presence("room", 1);
    two.engine.enter(&topic("room"), &member("c2", None));
    let page = one.wait_presence("room", 2);
    assert_eq!(page.clients, [member("c1", Some("ann")), member("c2", None)]);
    // More notes than one beat removes.
    for n in 0..700 {
        two.engine.enter(&topic("hall"), &member(&format!("c{n}"), None));
    }
    one.wait_presence("hall", 700);
    drop(two); // Without a word to Redis, as a gateway that is killed.
    let left = one.sink.wait_until(|calls| {
        calls.iter().any(|call| matches!(call, SinkCall::Presence { is_present: false, .. }))
    });
    let told: Vec<_> = left
        .iter()
        .filter_map(|call| match call {
            SinkCall::Presence { member, is_present, .. } => Some((&*member.client, *is_present)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [("c1", true), ("c2", true), ("c2", false)]);
    assert_eq!(one.wait_presence("room", 1).clients, [member("c1", Some("ann"))]);
    one.wait_presence("hall", 0);
    let three = Gateway::with_options(options);
    three.engine.enter(&topic("room"), &member("c3", None));
    three.wait_presence("room", 2);
    wait(three.engine.close()).unwrap();
    one.wait_presence("room", 1);
    assert_eq!(server.cli(&["KEYS", "{waterwheel}:n:*"]).lines().count(), 1, "nothing is left");
}

/// Other gateways have given up one that was silent for too long; it is alive and says so.
#[test]
fn g08_a_gateway_that_was_given_up_writes_its_notes_again() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let gateway = Gateway::start(&server);
    gateway.engine.enter(&topic("room"), &member("c1", Some("ann")));
    gateway.wait_presence("room", 1);
    wait_until(|| server.cli(&["ZCARD", "{waterwheel}:nodes"]) == "1");
    for key in ["p:room", "u:room", "nodes"] {
        assert_eq!(server.cli(&["DEL", &format!("{{waterwheel}}:{key}")]), "1", "{key}");
    }
    let page = gateway.wait_presence("room", 1);
    assert_eq!(page.clients, [member("c1", Some("ann"))]);
    wait_until(|| server.cli(&["ZCARD", "{waterwheel}:nodes"]) == "1");
    assert_eq!(gateway.engine.status().reconnects, 0);
}

#[test]
fn g08_prefixes_and_databases_keep_gateways_apart() {
    if !is_redis_installed() {
        return;
    }
    let server = RedisServer::start(Persistence::Nothing);
    let other = RedisOptions { prefix: "other".to_owned(), ..server.options() };
    let gateways = [
        Gateway::start(&server),
        Gateway::with_options(other),
        Gateway::with_options(server.options_for("/3")),
    ];
    for (n, gateway) in gateways.iter().enumerate().take(2) {
        gateway.subscribe("a");
        gateway.publish("a", n);
        gateway.sink.wait_for("a", n as u64);
    }
    let published = gateways[2].publish("a", 2);
    for (n, gateway) in gateways.iter().enumerate() {
        let held = gateway.history("a", None, 10).publications;
        assert_eq!(held.len(), 1, "{n}");
    }
    assert_ne!(published.epoch, gateways[0].history("a", None, 1).position.epoch);
    assert_eq!(gateways[1].sink.publications().len(), 1);
}
