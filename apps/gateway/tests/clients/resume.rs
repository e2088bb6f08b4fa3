//! Resume by position: nothing lost, nothing twice, a gap told, whatever protocol was spoken before.

use serde_json::{Value, json};

use crate::support::bench::Bench;
use crate::support::http_client::{get, post};
use crate::support::websocket_client::WebSocketClient;

fn publish(bench: &Bench, topic: &str, numbers: impl IntoIterator<Item = u32>) -> String {
    let mut last = String::new();
    for number in numbers {
        let body = json!({"topic": topic, "data": number}).to_string();
        let answer = post(bench.http, "/api/publish", body).json();
        last = answer["position"].as_str().unwrap().to_owned();
    }
    last
}

fn numbers(client: &mut WebSocketClient, count: usize) -> Vec<u64> {
    (0..count).map(|_| client.next()["data"].as_u64().unwrap()).collect()
}

#[test]
fn g02_a_client_that_comes_back_gets_what_it_has_missed_and_then_what_is_new() {
    let bench = Bench::start();
    let mut first = bench.websocket();
    first.ask(json!({"subscribe": {"topic": "a.*"}}));
    publish(&bench, "a.b", 1..=3);
    let seen: Vec<Value> = (0..3).map(|_| first.next()).collect();
    drop(first);
    publish(&bench, "a.b", 4..=6);
    publish(&bench, "c", [99]);
    let mut second = bench.websocket();
    let since = &seen[2]["position"];
    let ok = second.ask(json!({"subscribe": {"topic": "a.*", "since": since}}));
    assert_eq!((&ok["recovered"], &ok["gap"]), (&json!(3), &json!(false)));
    assert_eq!(numbers(&mut second, 3), [4, 5, 6]);
    publish(&bench, "a.b", [7]);
    assert_eq!(numbers(&mut second, 1), [7]);
    second.expect_nothing();
    // The position of the answer includes the recovered ones.
    let mut third = bench.websocket();
    let ok = third.ask(json!({"subscribe": {"topic": "a.*", "since": ok["position"]}}));
    assert_eq!(ok["recovered"], 1);
    assert_eq!(numbers(&mut third, 1), [7]);
    bench.end();
}

/// Publishes without a pause while a client subscribes again and again, each time from where it was.
#[test]
fn g02_nothing_is_lost_or_comes_twice_while_others_publish() {
    const LAST: u64 = 3_000;
    let bench = Bench::with(|config| config.history.topic_publications = 2 * LAST as usize);
    let start = publish(&bench, "a", [0]);
    let publisher = {
        let mut client = bench.websocket();
        std::thread::spawn(move || {
            for number in 1..=LAST {
                client.send(&json!({"publish": {"topic": "a", "data": number}}));
            }
            client.expect_nothing();
        })
    };
    let (mut since, mut seen) = (json!(start), 0);
    let mut rounds = 0;
    while seen < LAST {
        rounds += 1;
        let mut client = bench.websocket();
        let ok = client.ask(json!({"subscribe": {"topic": "a", "since": since}}));
        assert_eq!(ok["gap"], false);
        let recovered = ok["recovered"].as_u64().unwrap();
        // All of the recovered ones, and some of the new ones.
        for _ in 0..recovered + 5 {
            if seen == LAST {
                break;
            }
            let push = client.next();
            assert_eq!(push["data"], seen + 1, "round {rounds}");
            seen += 1;
            since = push["position"].clone();
        }
    }
    publisher.join().unwrap();
    assert!(rounds > 1);
    bench.end();
}

#[test]
fn g02_a_gap_is_told_if_the_history_does_not_reach_back_or_the_position_is_of_another_run() {
    let bench = Bench::with(|config| {
        config.history.topic_publications = 3;
    });
    let first = publish(&bench, "a", [1]);
    publish(&bench, "a", 2..=6);
    let mut client = bench.websocket();
    let ok = client.ask(json!({"subscribe": {"topic": "a", "since": first}}));
    assert_eq!((&ok["recovered"], &ok["gap"]), (&json!(3), &json!(true)));
    assert_eq!(numbers(&mut client, 3), [4, 5, 6]);
    client.ask(json!({"unsubscribe": {"topic": "a"}}));
    let ok = client.ask(json!({"subscribe": {"topic": "a", "since": "00000000-7"}}));
    assert_eq!((&ok["recovered"], &ok["gap"]), (&json!(3), &json!(true)));
    bench.end();
}

#[test]
fn g02_a_subscription_recovers_the_latest_within_its_limits_and_tells_a_gap() {
    let bench = Bench::with(|config| {
        config.limits.recovered = 4;
        config.limits.recovered_bytes = 25;
    });
    let first = publish(&bench, "a", [1]);
    publish(&bench, "a", 2..=9);
    let mut client = bench.websocket();
    let ok = client.ask(json!({"subscribe": {"topic": "a", "since": first}}));
    assert_eq!((&ok["recovered"], &ok["gap"]), (&json!(4), &json!(true)), "by number");
    assert_eq!(numbers(&mut client, 4), [6, 7, 8, 9]);
    for _ in 0..3 {
        client.ask(json!({"publish": {"topic": "b", "text": "ten bytes!"}}));
    }
    let ok = client.ask(json!({"subscribe": {"topic": "b", "since": first}}));
    assert_eq!((&ok["recovered"], &ok["gap"]), (&json!(2), &json!(true)), "by bytes");
    bench.end();
}

#[test]
fn g02_a_page_of_history_that_has_more_ends_where_the_next_one_begins() {
    let bench = Bench::with(|config| config.limits.history_bytes = 25);
    let mut client = bench.websocket();
    let texts: Vec<_> = (0..7).map(|n| format!("ten bytes{n}")).collect();
    for text in &texts {
        client.ask(json!({"publish": {"topic": "a", "text": text}}));
    }
    let (mut read, mut since) = (Vec::new(), json!(null));
    for page_len in [2, 2, 2, 1] {
        let page = client.ask(json!({"history": {"topic": "a", "since": since}}));
        let publications = page["publications"].as_array().unwrap();
        assert_eq!(publications.len(), page_len);
        read.extend(publications.iter().map(|each| each["text"].as_str().unwrap().to_owned()));
        since = page["position"].clone();
        assert_eq!(page["more"], page_len == 2);
    }
    assert_eq!(read, texts);
    let page = get(bench.http, "/api/history?topic=a&limit=1").json();
    assert_eq!(
        (&page["more"], &page["position"]),
        (&json!(true), &page["publications"][0]["position"])
    );
    bench.end();
}

#[test]
fn g02_a_position_of_one_protocol_resumes_in_any_other() {
    let bench = Bench::start();
    let first = publish(&bench, "a", [1]);
    let mut lines = bench.line_client();
    assert!(lines.ask(&format!("SUB a {first}")).ends_with(" 0"));
    assert!(lines.ask("PUB a hello").starts_with("OK "), "the reply comes before the publication");
    lines.expect("MSG a - hello");
    let mut events = bench.events(&format!("topic=a&since={first}"));
    assert_eq!(events.next().name, "open");
    let event = events.next();
    assert_eq!(event.data["text"], "hello");
    let seen = event.id.unwrap();
    publish(&bench, "a", [3]);
    let mut client = bench.websocket();
    let ok = client.ask(json!({"subscribe": {"topic": "a", "since": seen}}));
    assert_eq!(ok["recovered"], 1);
    assert_eq!(client.next()["data"], 3);
    lines.expect("MSG a - 3");
    assert_eq!(events.next().data["data"], 3);
    let mut lines = bench.line_client();
    let reply = lines.ask(&format!("SUB a {first}"));
    assert!(reply.ends_with(" 2"), "{reply}");
    lines.expect("MSG a - hello");
    lines.expect("MSG a - 3");
    bench.end();
}
