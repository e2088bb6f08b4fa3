//! Several gateways, and other programs, behind one NATS.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::nats::options::NatsOptions;
use waterwheel_gateway::engine::publication::{Publication, PublicationPayload};
use waterwheel_gateway::engine::{Engine, EngineError};

use super::server::{JETSTREAM, NatsServer, has_nats};
use super::test_gateway::{Gateway, options};
use crate::engine_suite::{SinkCall, json, member, publish, topic, wait};

fn positions(publications: &[Arc<Publication>]) -> Vec<(u64, String)> {
    let of = |p: &Arc<Publication>| (p.position.sequence, p.topic.to_string());
    publications.iter().map(of).collect()
}

#[test]
fn g08_two_gateways_hand_on_the_same_publications_in_one_order() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let (one, two) = (Gateway::start(&server), Gateway::start(&server));
    for gateway in [&one, &two] {
        gateway.subscribe(">");
    }
    thread::scope(|scope| {
        for (publisher, gateway) in [&one, &two, &one, &two].into_iter().enumerate() {
            scope.spawn(move || {
                for n in 0..50 {
                    let batch =
                        (0..10).map(|i| json(&format!("t.{}", (n + i) % 7), publisher)).collect();
                    for result in wait(gateway.engine.publish(batch)).unwrap() {
                        result.unwrap();
                    }
                }
            });
        }
    });
    let (of_one, of_two) = (one.sink.wait_count(2_000), two.sink.wait_count(2_000));
    assert_eq!(positions(&of_one), positions(&of_two));
    assert!(of_one.is_sorted_by(|a, b| b.position.is_after(a.position)));
    let since = Some(of_one[999].position);
    assert_eq!(one.history(">", since).publications, two.history(">", since).publications);
    assert_eq!(two.history(">", since).publications, of_two[1_000..]);
}

#[test]
fn g08_what_one_gateway_was_acknowledged_is_in_the_history_of_another() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let (one, two) = (Gateway::start(&server), Gateway::start(&server));
    for n in 0..200 {
        let position = one.publish("a", n);
        let page = two.history("a", None);
        assert_eq!(page.publications.last().unwrap().position, position);
        assert!(!position.is_after(two.subscribe("a")));
        two.engine.unsubscribe(&crate::engine_suite::filter("a"));
    }
}

#[test]
fn g08_gateways_of_different_prefixes_share_nothing() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let one = Gateway::start(&server);
    let mut other = options(&server.url());
    other.prefix = "other.gateways".to_owned();
    let two = Gateway::with_options(other);
    two.wait_connected();
    two.subscribe(">");
    one.engine.enter(&topic("a"), &member("c1", None));
    one.publish("a", 1);
    two.publish("a", 2);
    two.sink.wait_for("a", 2);
    assert_eq!(two.sink.publications().len(), 1);
    assert_eq!(two.wait_presence("a", 0).count, 0);
    assert_eq!(two.history("a", None).publications.len(), 1);
}

#[test]
fn g08_presence_is_that_of_all_gateways() {
    if !has_nats() {
        return;
    }
    for config in [JETSTREAM, ""] {
        let server = NatsServer::with_config(config);
        let (one, two) = (Gateway::start(&server), Gateway::start(&server));
        for n in 0..700 {
            one.engine.enter(&topic("room"), &member(&format!("c{n:03}"), None));
        }
        two.engine.enter(&topic("room"), &member("d000", Some("dan")));
        one.wait_presence("room", 701);
        let three = Gateway::start(&server);
        let page = three.wait_presence("room", 701);
        assert_eq!(page.clients[700], member("d000", Some("dan")));
        two.engine.leave(&topic("room"), "d000");
        three.wait_presence("room", 700);
        wait(one.engine.close()).unwrap();
        three.wait_presence("room", 0);
        let told = three.sink.calls();
        let left = |call: &&SinkCall| matches!(call, SinkCall::Presence { is_present: false, .. });
        assert_eq!(told.iter().filter(left).count(), 701);
    }
}

#[test]
fn g08_a_publication_of_another_program_reaches_the_sink() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let gateway = Gateway::start(&server);
    gateway.subscribe("news.*");
    let acknowledged = server.request("waterwheel.topic.news.de", "{\"a\":1}");
    assert!(acknowledged.contains("\"seq\":1"), "{acknowledged}");
    server.request("waterwheel.topic.news.%41", "no topic");
    server.request("waterwheel.topic.news.fr", "bonjour");
    let received = gateway.sink.wait_count(2);
    assert_eq!(received[0].payload, PublicationPayload::Json("{\"a\":1}".into()));
    assert_eq!(received[1].payload, PublicationPayload::Text("bonjour".into()));
    assert_eq!((received[1].position.sequence, received[1].from.clone()), (3, None));
    assert!(received[1].time > 1_600_000_000_000, "{}", received[1].time);
    assert_eq!(gateway.publish("news.de", 1).sequence, 4);
}

#[test]
fn g08_a_publication_above_the_limit_of_the_server_is_refused_and_others_are_not() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::with_config(&format!("{JETSTREAM}max_payload: 1000\n"));
    let gateway = Gateway::start(&server);
    let batch = vec![json("a", 1), json("a", "1".repeat(1_000)), json("a", 2)];
    let results = wait(gateway.engine.publish(batch)).unwrap();
    assert!(results[0].is_ok() && results[2].is_ok());
    let Err(EngineError::Refused { reason, .. }) = &results[1] else { panic!("{results:?}") };
    assert!(reason.contains("the server accepts 1000"), "{reason}");
    assert!(publish(&*gateway.engine, "a", 3).is_ok());
}

#[test]
fn g08_what_waits_for_nats_is_bounded() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let timeout = Duration::from_secs(10);
    let gateway = Gateway::with_options(NatsOptions { timeout, ..options(&server.url()) });
    gateway.wait_connected();
    server.stop();
    let text = "1".repeat(100_000);
    let batch = (0..1_000).map(|_| json("a", &text)).collect();
    let results = gateway.engine.publish(batch);
    let in_flight = || gateway.engine.status().in_flight;
    super::test_gateway::wait_until(|| in_flight() > 0, || in_flight().to_string());
    assert!(in_flight() < 400, "32 MiB at most: {}", in_flight());
    let refused = "too many publications wait to be acknowledged";
    let late = publish(&*gateway.engine, "a", &text).unwrap_err();
    assert!(late.to_string().contains(refused), "{late}");
    server.signal(rustix::process::Signal::CONT);
    let results = wait(results).unwrap();
    let is_refused = |error: &EngineError| error.to_string().contains(refused);
    let refusals =
        results.iter().flat_map(|result| result.as_ref().err()).filter(|e| is_refused(e));
    assert!(refusals.count() > 600);
}

/// A burst that is longer than the history is handed on as a whole: what is kept and what is handed on are two things.
#[test]
fn g08_a_burst_beyond_the_history_reaches_gateways_that_are_connected() {
    if !has_nats() {
        return;
    }
    let server = NatsServer::start();
    let limits = HistoryLimits::builder().topic_publications(0).build().unwrap();
    let start = || {
        let gateway = Gateway::with_limits(options(&server.url()), limits);
        gateway.wait_connected();
        gateway
    };
    let (one, two) = (start(), start());
    two.subscribe("a");
    for _ in 0..5 {
        let batch = (0..1_000).map(|n| json("a", n)).collect();
        wait(one.engine.publish(batch)).unwrap();
    }
    assert_eq!(two.sink.wait_count(5_000).len(), 5_000);
    assert!(two.sink.wait_gaps(0).is_empty());
    assert!(two.history("a", None).publications.is_empty());
}
