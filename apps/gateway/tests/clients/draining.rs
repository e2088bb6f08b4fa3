//! The end of the gateway, as its clients see it.

use serde_json::json;

use crate::support::bench::Bench;
use crate::support::gated_engine::EngineGate;
use crate::support::http_client::{get, post};

#[test]
fn g01_clients_of_every_protocol_are_told_that_the_gateway_closes_after_all_that_was_published() {
    let bench = Bench::start();
    let mut websocket = bench.websocket();
    websocket.ask(json!({"subscribe": {"topic": "a"}}));
    let mut lines = bench.line_client();
    assert!(lines.ask("SUB a").starts_with("OK "));
    let mut events = bench.events("topic=a");
    assert_eq!(events.next().name, "open");
    for number in 0..100 {
        assert_eq!(post(bench.http, "/topics/a", number.to_string()).status, 200);
    }
    bench.drain_core();
    for _ in 0..100 {
        assert_eq!(websocket.next()["push"], "message");
        assert_eq!(events.next().name, "message");
        assert!(lines.hear().unwrap().starts_with("MSG a - "));
    }
    let (closing, code, reason) = websocket.end();
    assert_eq!((code, closing.len(), &closing[0]["reconnect"]), (1001, 1, &json!(true)));
    assert_eq!(reason, "this gateway is shutting down; connect again");
    let closing = events.next();
    assert_eq!((closing.name.as_str(), &closing.data["reconnect"]), ("closing", &json!(true)));
    assert_eq!(events.try_next(), None);
    lines.expect_end("BYE this gateway is shutting down; connect again");
    bench.end();
}

#[test]
fn g01_a_gateway_that_drains_refuses_new_clients_and_commands() {
    let bench = Bench::start();
    bench.drain_core();
    assert_eq!(bench.websocket().close_code(), 1001);
    let answer = post(bench.http, "/api/publish", "{\"topic\":\"a\",\"data\":1}");
    assert_eq!((answer.status, answer.error().as_str()), (503, "closing"));
    assert_eq!(get(bench.http, "/events?topic=a").error(), "closing");
    let mut lines = crate::support::line_client::LineClient::connect(bench.lines);
    lines.expect_end("BYE this gateway is shutting down; connect again");
    bench.end();
}

#[test]
fn g01_a_command_that_is_under_way_is_answered_before_the_end() {
    let gate = EngineGate::default();
    let bench = Bench::with(|config| config.gate = Some(gate.clone()));
    let mut client = bench.websocket();
    client.ask(json!({"subscribe": {"topic": "a"}}));
    gate.close();
    client.send(&json!({"id": 1, "publish": {"topic": "a", "data": 1}}));
    while gate.waiting() == 0 {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| bench.drain_core());
        while !bench.core.is_draining() {
            std::thread::yield_now();
        }
        gate.open();
        let mut messages = [client.next(), client.next()];
        messages.sort_by_key(|message| message["id"].is_null());
        assert!(messages[0]["ok"]["position"].is_string());
        assert_eq!(messages[1]["push"], "message");
        assert_eq!(client.close_code(), 1001);
        drain.join().unwrap();
    });
    bench.end();
}
