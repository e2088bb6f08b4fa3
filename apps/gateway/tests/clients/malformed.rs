//! Input that no client should send: each gets an error that it can act on, and nothing of it reaches another client.

use serde_json::{Value, json};
use waterwheel::websocket::WebSocketMessage;

use crate::support::bench::Bench;
use crate::support::http_client::post;

/// Texts that are refused as a whole, or a single command that is; with the code and a part of the message.
const REFUSED: &[(&str, u64, &str)] = &[
    ("", 100, "not JSON"),
    ("nonsense", 100, "line 1, column 2"),
    ("{\"ping\":{}", 100, "not JSON"),
    ("{\"ping\":{}}{}", 100, "not JSON"),
    ("7", 100, "an object, or an array"),
    ("\"ping\"", 100, "an object, or an array"),
    ("[]", 100, "not empty"),
    ("[7]", 100, "a command is an object"),
    ("[[]]", 100, "a command is an object"),
    ("{}", 100, "connect, subscribe, unsubscribe, publish, history, presence, ping"),
    ("{\"ping\":{},\"publish\":{}}", 100, "not \"ping\" and \"publish\""),
    ("{\"shout\":{}}", 101, "no command \"shout\""),
    ("{\"ping\":{},\"id\":-1}", 102, "`id` must be an integer from 0 to 9007199254740992"),
    ("{\"ping\":{},\"id\":1.5}", 102, "`id`"),
    ("{\"ping\":{},\"id\":\"1\"}", 102, "`id`"),
    ("{\"ping\":{},\"id\":9007199254740993}", 102, "`id`"),
    ("{\"ping\":{},\"id\":1,\"id\":1}", 102, "`id` is there twice"),
    ("{\"ping\":7}", 102, "`ping` must be an object with no fields"),
    ("{\"ping\":{\"a\":1}}", 102, "`ping` has no field \"a\""),
    ("{\"subscribe\":{}}", 102, "`subscribe.topic` is missing"),
    ("{\"subscribe\":{\"topic\":7}}", 102, "`subscribe.topic` must be a string"),
    ("{\"subscribe\":{\"topic\":\"a\",\"topic\":\"b\"}}", 102, "`subscribe.topic` is there twice"),
    ("{\"subscribe\":{\"topic\":\"a\",\"sinec\":\"\"}}", 102, "\"sinec\", but `topic`, `since`"),
    ("{\"subscribe\":{\"topic\":\"a\",\"since\":\"later\"}}", 102, "a position is a text"),
    ("{\"subscribe\":{\"topic\":\"a\",\"presence\":1}}", 102, "`subscribe.presence` must be true"),
    ("{\"subscribe\":{\"topic\":\"a..b\"}}", 106, "segments that are not empty"),
    ("{\"subscribe\":{\"topic\":\"a.\\u001b\"}}", 106, "no control characters"),
    ("{\"unsubscribe\":{\"topic\":\"a\"}}", 109, "no subscription to a"),
    ("{\"publish\":{\"topic\":\"a\"}}", 102, "one of `data`, `text` and `base64`"),
    ("{\"publish\":{\"topic\":\"a\",\"data\":1,\"text\":\"\"}}", 102, "one of `data`"),
    ("{\"publish\":{\"topic\":\"a\",\"base64\":\"?\"}}", 102, "`base64` must be base64"),
    ("{\"publish\":{\"topic\":\"a.*\",\"data\":1}}", 106, "wildcards"),
    ("{\"publish\":7}", 102, "`publish` must be an object"),
    (
        "{\"history\":{\"topic\":\"a\",\"limit\":0}}",
        102,
        "`history.limit` must be an integer from 1",
    ),
    ("{\"presence\":{\"topic\":\">\"}}", 106, "wildcards"),
    ("{\"connect\":{\"name\":7}}", 102, "`connect.name` must be a string"),
];

#[test]
fn g01_what_is_malformed_is_answered_with_what_was_wrong_and_reaches_nobody() {
    let bench = Bench::start();
    let (mut watcher, mut client) = (bench.websocket(), bench.websocket());
    watcher.ask(json!({"subscribe": {"topic": ">"}}));
    for (text, code, message) in REFUSED {
        client.send_message(*text);
        let answer = client.next();
        assert_eq!(answer["error"]["code"], *code, "{text}: {answer}");
        let told = answer["error"]["message"].as_str().unwrap();
        assert!(told.contains(message), "{text}: {told}");
    }
    client.send_message(WebSocketMessage::binary(b"{\"ping\":{}}".to_vec()));
    assert_eq!(client.next()["error"]["name"], "malformed");
    client.expect_nothing();
    watcher.expect_nothing();
    bench.end();
}

#[test]
fn g01_a_message_of_no_sense_ends_neither_those_before_it_nor_those_after_it() {
    let bench = Bench::start();
    let mut client = bench.websocket();
    client.send_message(
        "[{\"id\":1,\"ping\":{}},7,{\"id\":2,\"publish\":{}},{\"id\":3,\"ping\":{}}]",
    );
    let answers: Vec<Value> = (0..4).map(|_| client.next()).collect();
    assert_eq!(answers[0], json!({"id": 1, "ok": {}}));
    assert_eq!(answers[1]["error"]["name"], "malformed");
    assert_eq!(
        (&answers[2]["id"], &answers[2]["error"]["name"]),
        (&json!(2), &json!("invalid_field"))
    );
    assert_eq!(answers[3], json!({"id": 3, "ok": {}}));
    bench.end();
}

#[test]
fn g01_json_that_is_nested_too_deep_is_refused_before_it_reaches_a_reader_with_a_stack() {
    let bench = Bench::start();
    let mut client = bench.websocket();
    client.ask(json!({"subscribe": {"topic": "a"}}));
    let publish = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!("{{\"publish\":{{\"topic\":\"a\",\"data\":{open}\"]\\\"[\"{close}}}}}")
    };
    client.send_message(publish(100));
    assert_eq!(client.next()["push"], "message");
    for depth in [101, 20_000] {
        client.send_message(publish(depth));
        let error = client.next()["error"].take();
        assert_eq!(error["code"], 102);
        assert_eq!(error["message"], "`data` is nested more than 100 deep");
    }
    // Elsewhere, depth is nobody's.
    client.send_message(format!("{}{}", "[".repeat(20_000), "]".repeat(20_000)));
    assert_eq!(client.next()["error"]["name"], "malformed");
    bench.end();
}

#[test]
fn g03_every_limit_is_answered_by_an_error_that_names_it() {
    let bench = Bench::with(|config| {
        config.limits.batch = 3;
        config.limits.subscriptions = 2;
        config.limits.message_bytes = 1_000;
        config.limits.topic.max_bytes = 20;
        config.limits.topic.max_segments = 3;
        config.limits.topic.max_wildcards = 1;
    });
    let mut client = bench.websocket();
    let ping = json!({"ping": {}});
    client.send(&json!([ping, ping, ping, ping]));
    let error = client.next()["error"].take();
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(105), &json!("a batch has at most 3 commands; this one has 4"),)
    );
    let entry = json!({"topic": "a", "data": 1});
    let batch = json!({"publish": [entry, entry, entry, entry]});
    assert_eq!(client.refused(batch), "batch_too_large");
    for topic in ["a.b.c.d", "aaaaaaaaaaaaaaaaaaaaa", "*.a.*"] {
        assert_eq!(client.refused(json!({"subscribe": {"topic": topic}})), "topic_too_long");
        assert_eq!(client.refused(json!({"history": {"topic": topic}})), "topic_too_long");
    }
    for topic in ["a", "b"] {
        client.ask(json!({"subscribe": {"topic": topic}}));
    }
    assert_eq!(client.refused(json!({"subscribe": {"topic": "c"}})), "too_many_subscriptions");
    bench.end();
}

#[test]
fn g01_a_message_beyond_its_limit_ends_the_connection_and_says_so() {
    let bench = Bench::with(|config| config.limits.message_bytes = 1_000);
    let mut watcher = bench.websocket();
    watcher.ask(json!({"subscribe": {"topic": ">"}}));
    let mut client = bench.websocket();
    client.ask(json!({"ping": {}}));
    client.send(&json!({"publish": {"topic": "a", "text": "x".repeat(1_000)}}));
    let (closing, code, reason) = client.end();
    assert_eq!(code, 1009, "{reason}");
    assert_eq!(closing.len(), 1, "the reason comes before the Close");
    watcher.expect_nothing();
    bench.end();
}

#[test]
fn g01_texts_that_are_not_utf_8_and_broken_frames_end_the_connection_alone() {
    let bench = Bench::start();
    let mut watcher = bench.websocket();
    watcher.ask(json!({"subscribe": {"topic": ">"}}));
    let of: [(&[u8], u16); 3] = [
        (&[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xff], 1007),
        (&[0x81, 0x02, b'{', b'}'], 1002),
        (&[0xf1, 0x80, 0, 0, 0, 0], 1002),
    ];
    for (frame, code) in of {
        let mut client = bench.websocket();
        client.send_raw(frame);
        assert_eq!(client.close_code(), code, "{frame:?}");
    }
    watcher.expect_nothing();
    bench.end();
}

#[test]
fn g01_http_refuses_the_same_with_the_status_of_the_table() {
    let bench = Bench::with(|config| config.limits.message_bytes = 1_000);
    let mut watcher = bench.websocket();
    watcher.ask(json!({"subscribe": {"topic": ">"}}));
    for (body, status, name) in [
        ("", 400, "malformed"),
        ("{\"topic\"", 400, "malformed"),
        ("7", 400, "invalid_field"),
        ("{\"data\":1}", 400, "invalid_field"),
        ("{\"topic\":\"a\",\"data\":1,\"more\":2}", 400, "invalid_field"),
        ("{\"topic\":\"a..b\",\"data\":1}", 400, "invalid_topic"),
        (&format!("{{\"topic\":\"{}\",\"data\":1}}", "a".repeat(300)), 400, "topic_too_long"),
        (
            &format!("{{\"topic\":\"a\",\"text\":\"{}\"}}", "x".repeat(1_000)),
            413,
            "message_too_large",
        ),
    ] {
        let answer = post(bench.http, "/api/publish", body);
        assert_eq!((answer.status, answer.error().as_str()), (status, name), "{body}");
    }
    watcher.expect_nothing();
    bench.end();
}
