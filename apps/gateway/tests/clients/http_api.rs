//! Single requests of HTTP.

use serde_json::json;

use crate::support::bench::Bench;
use crate::support::http_client::{get, post, request};

#[test]
fn g01_a_publication_by_http_reaches_the_clients_of_all_protocols() {
    let bench = Bench::start();
    let mut websocket = bench.websocket();
    websocket.ask(json!({"subscribe": {"topic": "a"}}));
    let mut lines = bench.line_client();
    assert!(lines.ask("SUB a").starts_with("OK "));
    let mut events = bench.events("topic=a");
    assert_eq!(events.next().name, "open");
    let answer = post(bench.http, "/api/publish", "{\"topic\":\"a\",\"data\":{\"b\":[1]}}");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    let position = answer.json()["position"].clone();
    assert_eq!(websocket.next()["position"], position);
    assert_eq!(events.next().data["data"], json!({"b": [1]}));
    lines.expect("MSG a - {\"b\":[1]}");
    bench.end();
}

#[test]
fn g01_a_batch_by_http_has_a_result_for_each_entry() {
    let bench = Bench::with(|config| config.limits.batch = 3);
    let body = json!([{"topic": "a", "data": 1}, {"topic": "a"}, {"topic": "b", "text": "x"}]);
    let answer = post(bench.http, "/api/publish", body.to_string());
    let results = &answer.json()["results"];
    assert_eq!(answer.status, 200);
    assert!(results[0]["position"].is_string() && results[2]["position"].is_string());
    assert_eq!(results[1]["error"]["name"], "invalid_field");
    let answer = post(bench.http, "/api/publish", json!([1, 2, 3, 4]).to_string());
    assert_eq!((answer.status, answer.error().as_str()), (413, "batch_too_large"));
    bench.end();
}

#[test]
fn g01_a_body_is_published_in_the_form_of_its_type() {
    let bench = Bench::start();
    let mut client = bench.websocket();
    client.ask(json!({"subscribe": {"topic": "größe.x"}}));
    let of = [
        ("Content-Type: application/json\r\n", "{\"a\":1}", json!({"data": {"a": 1}})),
        ("Content-Type: Application/JSON; charset=utf-8\r\n", "null", json!({"data": null})),
        ("Content-Type: text/plain\r\n", "a text\n", json!({"text": "a text\n"})),
        ("Content-Type: application/pdf\r\n", "abc", json!({"base64": "YWJj"})),
        ("", "", json!({"base64": ""})),
    ];
    for (fields, body, content) in of {
        let answer = request(bench.http, "POST", "/topics/gr%C3%B6%C3%9Fe.x", fields, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let push = client.next();
        assert_eq!(push["position"], answer.json()["position"]);
        for (name, value) in content.as_object().unwrap() {
            assert_eq!(&push[name], value, "{push}");
        }
    }
    for (target, fields, body, name) in [
        ("/topics/a..b", "", "x", "invalid_topic"),
        ("/topics/a%00", "", "x", "invalid_topic"),
        ("/topics/a", "Content-Type: application/json\r\n", "{", "malformed"),
    ] {
        let answer = request(bench.http, "POST", target, fields, body);
        assert_eq!((answer.status, answer.error().as_str()), (400, name), "{target}");
    }
    let not_text: &[u8] = b"\xff\xfe";
    let answer = request(bench.http, "POST", "/topics/a", "Content-Type: text/plain\r\n", not_text);
    assert_eq!((answer.status, answer.error().as_str()), (400, "invalid_field"));
    bench.end();
}

#[test]
fn g01_history_presence_and_topics_are_answered_as_the_commands_are() {
    let bench = Bench::start();
    let mut client = bench.websocket();
    client.ask(json!({"connect": {"name": "ann"}}));
    client.ask(json!({"subscribe": {"topic": "a"}}));
    for number in 1..=3 {
        client.send(&json!({"publish": {"topic": "a", "data": number}}));
        client.next();
    }
    let by_command = client.ask(json!({"history": {"topic": "*", "limit": 2}}));
    let by_request = get(bench.http, "/api/history?topic=*&limit=2");
    assert_eq!(by_request.json(), by_command);
    assert_eq!(by_command["more"], true);
    let since = by_command["position"].as_str().unwrap();
    let rest = get(bench.http, &format!("/api/history?topic=a&since={since}")).json();
    assert_eq!(rest["publications"][0]["data"], 3);
    assert_eq!(
        get(bench.http, "/api/presence?topic=a").json(),
        client.ask(json!({"presence": {"topic": "a"}}))
    );
    let topics = get(bench.http, "/api/topics?limit=1").json();
    let topic = &topics["topics"][0];
    assert_eq!((&topic["topic"], &topic["subscribers"]), (&json!("a"), &json!(1)));
    assert_eq!((&topic["published"], &topic["history"]), (&json!(3), &json!(3)));
    assert!(topic["rate"].is_number());
    for (target, name) in [
        ("/api/history", "invalid_field"),
        ("/api/history?topic=a&limit=0", "invalid_field"),
        ("/api/history?topic=a&limit=x", "invalid_field"),
        ("/api/history?topic=a&since=x", "invalid_field"),
        ("/api/history?topic=a..", "invalid_topic"),
        ("/api/presence", "invalid_field"),
        ("/api/presence?topic=*", "invalid_topic"),
    ] {
        let answer = get(bench.http, target);
        assert_eq!((answer.status, answer.error().as_str()), (400, name), "{target}");
    }
    bench.end();
}
