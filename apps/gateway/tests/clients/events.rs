//! Server-sent events.

use std::time::Duration;

use serde_json::json;

use crate::support::bench::Bench;
use crate::support::event_client::EventClient;
use crate::support::http_client::{get, post};
use crate::support::tokens;

fn publish(bench: &Bench, topic: &str, number: u32) -> String {
    let body = json!({"topic": topic, "data": number}).to_string();
    post(bench.http, "/api/publish", body).json()["position"].as_str().unwrap().to_owned()
}

#[test]
fn g01_publications_are_events_whose_id_is_their_position() {
    let bench = Bench::start();
    let mut events = bench.events("topic=news.*&topic=chat");
    let open = events.next();
    assert_eq!(open.name, "open");
    assert_eq!(open.data["gap"], false);
    assert_eq!(open.data["position"].as_str(), open.id.as_deref());
    assert!(open.data["client"].as_str().unwrap().starts_with('c'));
    for (topic, number) in [("news.de", 1), ("chat", 2), ("other", 3), ("news.at", 4)] {
        let position = publish(&bench, topic, number);
        if topic == "other" {
            continue;
        }
        let event = events.next();
        assert_eq!((event.name.as_str(), event.id), ("message", Some(position.clone())));
        assert_eq!(event.data["push"], "message");
        assert_eq!((&event.data["topic"], &event.data["data"]), (&json!(topic), &json!(number)));
        assert_eq!(event.data["position"], position);
    }
    bench.end();
}

#[test]
fn g02_a_browser_that_connects_again_gets_what_is_after_its_last_event_over_all_topics_once() {
    let bench = Bench::start();
    let first = publish(&bench, "a.1", 1);
    for (topic, number) in [("b", 2), ("a.1", 3), ("b", 4), ("a.2", 5)] {
        publish(&bench, topic, number);
    }
    // The filters overlap, and their histories are interleaved; the older position of the address does not count.
    let field = format!("Last-Event-ID: {first}\r\n");
    let target = "/events?topic=a.*&topic=b&topic=a.1&topic=%3E&since=00000000-1";
    let mut events = EventClient::connect(bench.http, target, &field);
    let open = events.next();
    assert_eq!(open.data["gap"], false);
    assert_eq!(open.id.as_deref(), Some(first.as_str()), "until the first event is seen");
    let numbers: Vec<_> = (0..4).map(|_| events.next().data["data"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 3, 4, 5]);
    publish(&bench, "a.1", 6);
    assert_eq!(events.next().data["data"], 6);
    let mut events = bench.events("topic=a.*&since=00000000-1");
    assert_eq!(events.next().data["gap"], true, "a position of another run");
    bench.end();
}

#[test]
fn g02_the_publications_of_all_subscriptions_together_are_limited_and_a_gap_is_told() {
    let bench = Bench::with(|config| config.limits.recovered = 3);
    let first = publish(&bench, "a", 0);
    for number in 1..=3 {
        publish(&bench, "a", number);
        publish(&bench, "b", 10 + number);
    }
    let mut events = bench.events(&format!("topic=a&topic=b&since={first}"));
    assert_eq!(events.next().data["gap"], true);
    let numbers: Vec<_> = (0..3).map(|_| events.next().data["data"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [12, 3, 13], "the latest");
    bench.end();
}

#[test]
fn g01_a_request_that_cannot_be_served_is_answered_by_its_status() {
    let bench = Bench::with(|config| config.limits.subscriptions = 2);
    for (query, status, name) in [
        ("", 400, "invalid_field"),
        ("topic=a..b", 400, "invalid_topic"),
        ("topic=a&since=x", 400, "invalid_field"),
        ("topic=a&topic=b&topic=c", 429, "too_many_subscriptions"),
        ("topic=a&topic=a", 409, "already_subscribed"),
    ] {
        let answer = get(bench.http, &format!("/events?{query}"));
        assert_eq!((answer.status, answer.error().as_str()), (status, name), "{query}");
    }
    assert_eq!(bench.counts().subscriptions, 0);
    bench.end();
}

#[test]
fn g01_an_idle_stream_sends_comments_and_a_client_that_goes_is_noticed() {
    let bench = Bench::with(|config| {
        config.options.event_heartbeat = Some(Duration::from_millis(20));
    });
    let mut events = bench.events("topic=a");
    assert_eq!(events.next().name, "open");
    for _ in 0..3 {
        events.next_comment();
    }
    publish(&bench, "a", 1);
    assert_eq!(events.next().data["data"], 1);
    drop(events);
    bench.wait_for("the client leaves", |counts| counts.clients[1] == 0);
    assert_eq!(bench.counts().subscriptions, 0);
    bench.end();
}

#[test]
fn g03_a_stream_ends_with_its_token() {
    let bench = Bench::with(|config| {
        config.access = tokens::protected();
        config.access.claims.leeway = 0;
    });
    let claims = json!({"sub": "ann", "exp": tokens::in_seconds(2), "subscribe": [">"]});
    let mut events = bench.events(&format!("topic=a&token={}", tokens::with_claims(&claims)));
    assert_eq!(events.next().name, "open");
    let closing = events.next();
    assert_eq!((closing.name.as_str(), &closing.data["reconnect"]), ("closing", &json!(false)));
    assert_eq!(events.try_next(), None);
    bench.end();
}
