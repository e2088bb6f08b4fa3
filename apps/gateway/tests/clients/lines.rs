//! Lines of text over TCP.

use std::time::Duration;

use serde_json::json;

use crate::support::bench::Bench;
use crate::support::http_client::request;

#[test]
fn g01_the_commands_of_lines_are_answered_as_the_guide_says() {
    let bench = Bench::start();
    let (mut ann, mut bob) = (bench.line_client(), bench.line_client());
    assert_eq!(ann.ask("USER ann"), "OK hello ann");
    assert_eq!(bob.ask("user bob"), "OK hello bob");
    let subscribed = bob.ask("SUB news.*");
    let start = subscribed.strip_prefix("OK ").and_then(|rest| rest.strip_suffix(" 0")).unwrap();
    let published = ann.ask("PUB news.de  Hello, world ");
    assert!(published.starts_with("OK ") && published.ends_with(" 1"), "{published}");
    bob.expect("MSG news.de ann Hello, world ");
    assert_eq!(ann.ask("PUSH bob a word"), "OK");
    bob.expect("PUSH ann a word");
    assert!(ann.ask("PUSH eve a word").starts_with("ERR no_such_user "));
    assert_eq!(ann.ask("PING"), "PONG");
    assert!(bob.ask("SUB news.de").starts_with("OK "));
    let presence = ann.ask("PRESENCE news.de");
    assert!(presence.starts_with("OK 1 c") && presence.ends_with(":bob"), "{presence}");
    let history = ann.ask(&format!("HISTORY news.> {start}"));
    assert!(history.starts_with("OK ") && history.ends_with(" 1"), "{history}");
    ann.expect("MSG news.de ann Hello, world ");
    assert_eq!(bob.ask("UNSUB news.de"), "OK");
    assert!(bob.ask("UNSUB news.de").starts_with("ERR not_subscribed "));
    let first = ann.ask("HELP");
    assert!(first.starts_with("HELP USER name "), "{first}");
    let help: Vec<_> = std::iter::from_fn(|| ann.hear().filter(|line| line != "OK")).collect();
    assert_eq!(help.len(), 11);
    ann.say("PONG");
    assert_eq!(ann.ask("PING"), "PONG", "a PONG is not answered");
    ann.say("QUIT");
    ann.say("PUB news.de too late");
    ann.expect_end("BYE goodbye");
    bench.end();
}

#[test]
fn g01_lines_that_are_no_commands_are_answered_and_the_next_one_is_read() {
    let bench = Bench::with(|config| config.options.line_bytes = 100);
    let mut watcher = bench.websocket();
    watcher.ask(json!({"subscribe": {"topic": ">"}}));
    let mut client = bench.line_client();
    for (line, error) in [
        ("", "ERR malformed an empty line; HELP lists the commands"),
        ("SHOUT x", "ERR unknown_command there is no command \"SHOUT\"; HELP lists the commands"),
        ("SUB", "ERR invalid_field an argument is missing; expected: SUB topic [since]"),
        (
            "SUB a b",
            "ERR invalid_field `since` is \"b\"; a position is a text that the gateway has \
                     sent, such as 1f3c9a02-17",
        ),
        ("UNSUB a b", "ERR invalid_field unexpected \"b\" at the end of the line"),
        ("PUB a", "ERR invalid_field the text is missing; expected: PUB topic text"),
        ("PUB > x", "ERR invalid_topic the wildcards * and > are allowed in subscriptions only"),
        ("USER a\u{7}b", "ERR invalid_field `name` is empty, too long, or has white space in it"),
        (&"x".repeat(101), "ERR message_too_large a line is longer than 100 bytes"),
    ] {
        assert_eq!(client.ask(line), error, "{line:?}");
    }
    client.send(b"PUB a \xff\n");
    assert!(client.hear().unwrap().starts_with("ERR malformed "));
    assert_eq!(client.ask("PING\r"), "PONG");
    watcher.expect_nothing();
    bench.end();
}

/// A terminal obeys control characters, and a line ends with the first line end.
#[test]
fn g01_no_publication_writes_control_characters_or_a_second_line_to_a_client_of_lines() {
    let bench = Bench::start();
    let mut lines = bench.line_client();
    assert!(lines.ask("SUB a").starts_with("OK "));
    let mut client = bench.websocket();
    for (content, shown) in [
        (json!({"text": "one\r\ntwo\u{1b}[2J\u{9b}\t\\n"}), "one\\r\\ntwo\\u001b[2J\\u009b\t\\\\n"),
        (json!({"data": "one\ntwo\u{1b}\u{9b}\\"}), "\"one\\ntwo\\u001b\\u009b\\\\\""),
        (json!({"base64": "AP8B"}), "AP8B"),
    ] {
        let mut publish = content;
        publish["topic"] = json!("a");
        client.ask(json!({"publish": publish}));
        lines.expect(&format!("MSG a - {shown}"));
    }
    let answer =
        request(bench.http, "POST", "/topics/a", "Content-Type: text/plain\r\n", "x\nBYE\n");
    assert_eq!(answer.status, 200);
    lines.expect("MSG a - x\\nBYE\\n");
    bench.end();
}

#[test]
fn g01_commands_before_the_end_of_the_input_are_answered() {
    let bench = Bench::start();
    let mut watcher = bench.websocket();
    watcher.ask(json!({"subscribe": {"topic": "a"}}));
    let mut client = bench.line_client();
    client.send("PUB a one\nPUB a two\nPING\nPUB a unfinished");
    client.finish();
    assert!(client.hear().unwrap().starts_with("OK "));
    assert!(client.hear().unwrap().starts_with("OK "));
    client.expect("PONG");
    client.expect("ERR malformed the stream ended after 16 bytes of a line without a line end");
    client.expect_end("BYE end of input");
    assert_eq!((&watcher.next()["text"], &watcher.next()["text"]), (&json!("one"), &json!("two")));
    watcher.expect_nothing();
    bench.end();
}

#[test]
fn g01_a_silent_client_of_lines_is_asked_and_then_disconnected() {
    let bench = Bench::with(|config| config.options.line_idle = Some(Duration::from_secs(2)));
    let mut lively = bench.line_client();
    let mut silent = bench.line_client();
    silent.expect("PING");
    lively.expect("PING");
    lively.say("PONG");
    silent.expect_end("BYE idle for too long");
    lively.say("USER ann");
    let reply = std::iter::from_fn(|| lively.hear()).find(|line| line != "PING");
    assert_eq!(reply.as_deref(), Some("OK hello ann"));
    bench.end();
}

#[test]
fn g01_a_line_in_pieces_and_many_lines_at_once_are_the_same() {
    let bench = Bench::start();
    let mut client = bench.line_client();
    for byte in b"PING\n" {
        client.send([*byte]);
    }
    client.expect("PONG");
    client.send("PING\n".repeat(10_000));
    for _ in 0..10_000 {
        client.expect("PONG");
    }
    bench.end();
}
