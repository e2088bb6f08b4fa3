//! Every command of WebSocket, the order of answers, batches, presence, names.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use waterwheel::channel::{Bootstrap, EventLoopGroup};
use waterwheel::http::Client;
use waterwheel::net::{Auto, Tcp};
use waterwheel::websocket::{
    CloseCode, DeflateOptions, WebSocketConnector, WebSocketMessage, WebSocketOptions,
};

use crate::support::LIMIT;
use crate::support::bench::Bench;
use crate::support::gated_engine::EngineGate;
use crate::support::websocket_client::WebSocketClient;

/// Returns a push without its position and time, which differ from run to run.
fn content(mut push: Value) -> Value {
    let push = push.as_object_mut().expect("an object");
    assert!(push.remove("position").is_some_and(|position| position.is_string()));
    assert!(push.remove("time").is_some_and(|time| time.is_u64()));
    Value::Object(std::mem::take(push))
}

fn subscribe(client: &mut WebSocketClient, topic: &str) {
    client.ask(json!({"subscribe": {"topic": topic}}));
}

#[test]
fn g01_a_publication_reaches_the_subscribers_in_the_form_in_which_it_was_published() {
    let bench = Bench::start();
    let (mut ann, mut bob) = (bench.websocket(), bench.websocket());
    subscribe(&mut bob, "news.*");
    ann.ask(json!({"connect": {"name": "ann"}}));
    for content in [
        json!({"data": {"any": ["JSON", 1.50, null, "\u{2028}<script>"]}}),
        json!({"data": null}),
        json!({"text": "two\nlines and \"quotes\" \\ \u{1}"}),
        json!({"base64": "AP8B"}),
    ] {
        let mut publish = content.clone();
        publish["topic"] = json!("news.de");
        let ok = ann.ask(json!({"publish": publish}));
        assert!(ok["position"].is_string());
        let push = bob.next();
        assert_eq!(push["position"], ok["position"]);
        let mut expected = content;
        expected["push"] = json!("message");
        expected["topic"] = json!("news.de");
        expected["from"] = json!("ann");
        assert_eq!(self::content(push), expected);
    }
    ann.ask(json!({"publish": {"topic": "other", "data": 1}}));
    bob.expect_nothing();
    bench.end();
}

#[test]
fn g01_json_is_passed_on_as_it_was_written_but_on_one_line() {
    let bench = Bench::start();
    let mut client = bench.websocket();
    subscribe(&mut client, "a");
    let text = "{\"publish\":{\"topic\":\"a\",\"data\":{ \"b\" :\r\n 1.10e2,\n\"b\":\"\\u0041\"}}}";
    client.send_message(text);
    let Some(WebSocketMessage::Text(text)) = client.next_message() else { panic!("a text") };
    assert!(text.contains("\"data\":{ \"b\" : 1.10e2,\"b\":\"\\u0041\"},"), "{text}");
    bench.end();
}

#[test]
fn g01_the_commands_are_answered_as_the_guide_says() {
    let bench = Bench::start();
    let mut client = bench.websocket();
    let connected = client.ask(json!({"connect": {"name": "ann"}}));
    assert!(connected["client"].as_str().unwrap().starts_with('c'));
    assert_eq!((&connected["user"], &connected["ping"]), (&json!("ann"), &json!(25)));
    assert_eq!(connected["version"], env!("CARGO_PKG_VERSION"));
    let subscribed = client.ask(json!({"subscribe": {"topic": "a", "since": null}}));
    assert_eq!((&subscribed["recovered"], &subscribed["gap"]), (&json!(0), &json!(false)));
    let presence = client.ask(json!({"presence": {"topic": "a"}}));
    let member = json!({"client": connected["client"], "user": "ann"});
    assert_eq!(presence, json!({"clients": [member], "count": 1}));
    client.send(&json!({"publish": {"topic": "a", "data": 1}}));
    let first = client.next();
    let history = client.ask(json!({"history": {"topic": "a", "limit": 5}}));
    let mut entry = first.clone();
    entry.as_object_mut().unwrap().remove("push");
    assert_eq!(history["publications"], json!([entry]));
    assert_eq!(history["position"], first["position"]);
    assert_eq!((&history["gap"], &history["more"]), (&json!(false), &json!(false)));
    assert_eq!(client.ask(json!({"unsubscribe": {"topic": "a"}})), json!({}));
    assert_eq!(client.ask(json!({"presence": {"topic": "a"}})), json!({"clients": [], "count": 0}));
    assert_eq!(client.refused(json!({"unsubscribe": {"topic": "a"}})), "not_subscribed");
    client.ask(json!({"publish": {"topic": "a", "data": 2}}));
    client.expect_nothing();
    bench.end();
}

#[test]
fn g01_a_batch_is_published_in_order_and_its_entries_fail_on_their_own() {
    let bench = Bench::start();
    let (mut ann, mut bob) = (bench.websocket(), bench.websocket());
    subscribe(&mut bob, ">");
    let batch = json!([
        {"topic": "a", "data": 1}, {"topic": "*", "data": 2}, {"topic": "b", "text": "3"}, {"data": 4},
    ]);
    let results = ann.ask(json!({"publish": batch}))["results"].take();
    assert_eq!(results[1]["error"]["name"], "invalid_topic");
    assert_eq!(results[3]["error"]["name"], "invalid_field");
    for at in [0, 2] {
        let push = bob.next();
        assert_eq!(push["position"], results[at]["position"], "{push}");
    }
    bob.expect_nothing();
    assert_eq!(ann.ask(json!({"publish": []})), json!({"results": []}));
    bench.end();
}

#[test]
fn g01_answers_come_in_the_order_of_the_commands_whatever_takes_longer() {
    let gate = EngineGate::default();
    let bench = Bench::with(|config| config.gate = Some(gate.clone()));
    let mut client = bench.websocket();
    gate.close();
    client.send(&json!([
        {"id": 1, "publish": {"topic": "a", "data": 1}},
        {"id": 2, "ping": {}},
        {"id": 3, "nonsense": {}},
        {"publish": {"topic": "a", "data": 2}},
        {"id": 4, "subscribe": {"topic": "a"}},
    ]));
    client.send(&json!({"id": 5, "history": {"topic": "a"}}));
    client.send(&json!({"id": 0, "unsubscribe": {"topic": "a"}}));
    while gate.waiting() == 0 {
        std::thread::yield_now();
    }
    gate.open();
    let answers: Vec<_> = (0..6).map(|_| client.next()).collect();
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 0]);
    assert_eq!(answers[2]["error"]["name"], "unknown_command");
    assert_eq!(answers[4]["ok"]["publications"].as_array().unwrap().len(), 2);
    bench.end();
}

#[test]
fn g01_a_command_without_an_id_is_answered_only_if_it_fails() {
    let bench = Bench::start();
    let mut client = bench.websocket();
    client.send(&json!({"ping": {}}));
    client.send(&json!({"subscribe": {"topic": "a.>.b"}}));
    let answer = client.next();
    assert_eq!(answer["error"]["name"], "invalid_topic");
    assert_eq!(answer["error"]["code"], 106);
    assert_eq!(answer.get("id"), None);
    bench.end();
}

/// A client whose commands wait for the engine is not read beyond a limit, and loses nothing.
#[test]
fn g01_commands_wait_while_one_is_carried_out_and_none_is_lost() {
    const COMMANDS: u64 = 3_000;
    let gate = EngineGate::default();
    let bench = Bench::with(|config| config.gate = Some(gate.clone()));
    let mut client = bench.websocket();
    gate.close();
    // All in few reads: many more than may wait in the session.
    let mut all = Vec::new();
    for id in 0..COMMANDS {
        let command = json!({"id": id, "history": {"topic": "a", "limit": 1}});
        all.extend_from_slice(&client.encoded(command.to_string()));
    }
    client.send_raw(&all);
    while gate.waiting() == 0 {
        std::thread::yield_now();
    }
    gate.open();
    for id in 0..COMMANDS {
        let answer = client.next();
        assert_eq!((&answer["id"], &answer["ok"]["more"]), (&json!(id), &json!(false)));
    }
    bench.end();
}

#[test]
fn g02_presence_is_told_to_those_who_ask_and_not_to_the_client_itself() {
    let bench = Bench::start();
    let (mut watcher, mut other) = (bench.websocket(), bench.websocket());
    watcher.ask(json!({"subscribe": {"topic": "room.*", "presence": true}}));
    let bob = other.ask(json!({"connect": {"name": "bob"}}))["client"].take();
    subscribe(&mut other, "room.1");
    let member =
        |push: &str| json!({"push": push, "topic": "room.1", "client": bob, "user": "bob"});
    assert_eq!(watcher.next(), member("join"));
    subscribe(&mut watcher, "room.1");
    assert_eq!(watcher.ask(json!({"presence": {"topic": "room.1"}}))["count"], 2);
    other.expect_nothing();
    drop(other);
    assert_eq!(watcher.next(), member("leave"));
    bench.end();
}

#[test]
fn g01_a_name_belongs_to_one_client_until_that_leaves() {
    let bench = Bench::start();
    let (mut ann, mut eve) = (bench.websocket(), bench.websocket());
    ann.ask(json!({"connect": {"name": "ann"}}));
    assert_eq!(eve.refused(json!({"connect": {"name": "ann"}})), "name_taken");
    assert_eq!(ann.refused(json!({"connect": {"name": "ann2"}})), "wrong_order");
    for name in ["", "a b", "a\nb", &"a".repeat(129)] {
        assert_eq!(eve.refused(json!({"connect": {"name": name}})), "invalid_field", "{name:?}");
    }
    drop(ann);
    bench.wait_for("ann leaves", |counts| counts.clients[0] == 1);
    assert_eq!(eve.ask(json!({"connect": {"name": "ann"}}))["user"], "ann");
    bench.end();
}

#[test]
fn g01_a_client_with_many_matching_subscriptions_gets_a_publication_once() {
    let bench = Bench::start();
    let mut client = bench.websocket();
    for topic in ["a.b", "a.*", ">", "*.b"] {
        subscribe(&mut client, topic);
    }
    assert_eq!(client.refused(json!({"subscribe": {"topic": "a.*"}})), "already_subscribed");
    client.send(&json!({"publish": {"topic": "a.b", "data": 1}}));
    assert_eq!(client.next()["data"], 1);
    client.expect_nothing();
    bench.end();
}

#[test]
fn g01_clients_that_take_compressed_messages_and_others_get_the_same() {
    let bench = Bench::with(|config| config.options.compression = true);
    let mut plain = bench.websocket();
    subscribe(&mut plain, "a");
    let url = format!("ws://{}/ws", bench.http);
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let client = Client::builder(Bootstrap::new(&group, Tcp)).build().unwrap();
    let (subscribed, is_subscribed) = mpsc::channel();
    // The library's own client takes compressed messages.
    let compressed = group.next().spawn_with(move || async move {
        let options = WebSocketOptions::builder().deflate(DeflateOptions::default()).build();
        let connector = WebSocketConnector::new(client).options(options.unwrap());
        let mut socket = connector.connect(url).await.unwrap();
        socket.send("{\"id\":1,\"subscribe\":{\"topic\":\"a\"}}").await.unwrap();
        socket.next().await.unwrap().unwrap();
        subscribed.send(()).unwrap();
        let Some(Ok(WebSocketMessage::Text(text))) = socket.next().await else { panic!("a text") };
        socket.close(CloseCode::NORMAL).await;
        String::from(&*text)
    });
    is_subscribed.recv_timeout(LIMIT).unwrap();
    let text = "the same again and again, ".repeat(100);
    plain.send(&json!({"publish": {"topic": "a", "text": text}}));
    let push = plain.next();
    assert_eq!(push["text"], text);
    let compressed = compressed.unwrap().join().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&compressed).unwrap(), push);
    group.shutdown_gracefully(Duration::ZERO, LIMIT).unwrap().join().unwrap();
    bench.end();
}

#[test]
fn g01_a_silent_client_is_sent_a_ping_and_disconnected_if_it_does_not_answer() {
    let bench = Bench::with(|config| {
        config.options.ping_interval = Duration::from_millis(200);
        config.options.ping_timeout = Duration::from_millis(200);
    });
    let mut client = bench.websocket();
    assert_eq!(client.ask(json!({"connect": {}}))["ping"], 1, "at least a second");
    assert!(matches!(client.next_message(), Some(WebSocketMessage::Ping(_))));
    bench.wait_for("the client is disconnected", |counts| counts.clients[0] == 0);
    bench.end();
}
