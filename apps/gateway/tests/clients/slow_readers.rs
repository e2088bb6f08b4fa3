//! Clients that read slowly, in each protocol: what waits for them is limited, others are not held up, and what they have
//! missed is told.

use std::io::Write;

use serde_json::{Value, json};
use waterwheel_gateway::protocols::SlowClientPolicy;

use crate::support::LIMIT;
use crate::support::bench::Bench;
use crate::support::websocket_client::WebSocketClient;

/// More than the buffers of the kernel take, and the queue.
const PUBLICATIONS: u64 = 1_500;

fn bench(policy: SlowClientPolicy) -> Bench {
    Bench::with(|config| {
        config.options.queue_messages = 50;
        config.options.slow_clients = policy;
        if policy == SlowClientPolicy::Disconnect {
            config.options.close_timeout = LIMIT; // What waits is read before the Close.
        }
        config.history.topic_publications = 10_000;
        config.history.topic_bytes = 64 << 20;
        config.limits.recovered_bytes = 64 << 20;
    })
}

/// Publishes numbered texts of 10 KB, as fast as they are taken.
fn publish(bench: &Bench) {
    let mut client = bench.websocket();
    let filler = "x".repeat(10_000);
    for number in 0..PUBLICATIONS {
        let text = format!("{number} {filler}");
        client.ask(json!({"publish": {"topic": "a", "text": text}}));
    }
}

fn number(text: &Value) -> u64 {
    text.as_str().unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// The publications that a client has seen, or was told to have missed. As its kernel takes more at times, there may be
/// several gaps.
#[derive(Default)]
struct Progress {
    next: u64,
    /// The number of the first publication that was missed, and the position before it.
    first_missed: Option<(u64, String)>,
}

impl Progress {
    fn is_complete(&self) -> bool {
        self.next == PUBLICATIONS
    }

    fn on_message(&mut self, number: u64) {
        assert_eq!(number, self.next);
        self.next += 1;
    }

    fn on_missed(&mut self, count: u64, position: &str) {
        self.first_missed.get_or_insert_with(|| (self.next, position.to_owned()));
        self.next += count;
    }
}

#[test]
fn g01_a_slow_client_of_websocket_is_told_what_it_has_missed_and_resumes_from_there() {
    let bench = bench(SlowClientPolicy::Drop);
    let mut slow = bench.websocket();
    slow.ask(json!({"subscribe": {"topic": "a"}}));
    publish(&bench);
    assert!(bench.counts().missed[0] > 0, "the queue was full");
    let mut progress = Progress::default();
    while !progress.is_complete() {
        let push = slow.next();
        match push["push"].as_str() {
            Some("message") => progress.on_message(number(&push["text"])),
            _ => {
                assert_eq!(push["push"], "missed");
                let position = push["position"].as_str().unwrap();
                progress.on_missed(push["count"].as_u64().unwrap(), position);
            }
        }
    }
    let (first, since) = progress.first_missed.unwrap();
    slow.ask(json!({"unsubscribe": {"topic": "a"}}));
    let ok = slow.ask(json!({"subscribe": {"topic": "a", "since": since}}));
    assert_eq!((&ok["recovered"], &ok["gap"]), (&json!(PUBLICATIONS - first), &json!(false)));
    for expected in first..PUBLICATIONS {
        assert_eq!(number(&slow.next()["text"]), expected);
    }
    slow.expect_nothing();
    bench.end();
}

#[test]
fn g01_a_slow_client_of_websocket_is_disconnected_with_4131_if_the_policy_says_so() {
    let bench = bench(SlowClientPolicy::Disconnect);
    let mut slow = bench.websocket();
    slow.ask(json!({"subscribe": {"topic": "a"}}));
    publish(&bench);
    let (closing, code, _) = slow.end();
    assert_eq!(code, 4131);
    assert_eq!((closing.len(), &closing[0]["reconnect"]), (1, &json!(true)));
    drop(slow);
    assert!(bench.counts().refusals().any(|(name, _)| name == "client_too_slow"));
    bench.end();
}

#[test]
fn g01_a_slow_client_of_events_is_told_what_it_has_missed() {
    let bench = bench(SlowClientPolicy::Drop);
    let mut slow = bench.events("topic=a");
    assert_eq!(slow.next().name, "open");
    publish(&bench);
    let mut progress = Progress::default();
    while !progress.is_complete() {
        let event = slow.next();
        match event.name.as_str() {
            "message" => progress.on_message(number(&event.data["text"])),
            name => {
                assert_eq!(name, "missed");
                let position = event.data["position"].as_str().unwrap();
                progress.on_missed(event.data["count"].as_u64().unwrap(), position);
            }
        }
    }
    let (first, since) = progress.first_missed.expect("the queue was full");
    let mut again = bench.events(&format!("topic=a&since={since}"));
    assert_eq!(again.next().data["gap"], false);
    for expected in first..PUBLICATIONS {
        assert_eq!(number(&again.next().data["text"]), expected);
    }
    bench.end();
}

#[test]
fn g01_a_slow_client_of_events_is_disconnected_if_the_policy_says_so() {
    let bench = bench(SlowClientPolicy::Disconnect);
    let mut slow = bench.events("topic=a");
    assert_eq!(slow.next().name, "open");
    publish(&bench);
    let last = std::iter::from_fn(|| slow.try_next()).last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["reconnect"]), ("closing", &json!(true)));
    bench.end();
}

#[test]
fn g01_a_slow_client_of_lines_is_told_what_it_has_missed() {
    let bench = bench(SlowClientPolicy::Drop);
    let mut slow = bench.line_client();
    assert!(slow.ask("SUB a").starts_with("OK "));
    publish(&bench);
    let mut progress = Progress::default();
    while !progress.is_complete() {
        let line = slow.hear().unwrap();
        if let Some(text) = line.strip_prefix("MSG a - ") {
            progress.on_message(number(&json!(text)));
            continue;
        }
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!((words[0], words.len()), ("MISSED", 3), "{line}");
        progress.on_missed(words[1].parse().unwrap(), words[2]);
    }
    let (first, since) = progress.first_missed.expect("the queue was full");
    assert_eq!(slow.ask("UNSUB a"), "OK");
    let reply = slow.ask(&format!("SUB a {since}"));
    assert!(reply.ends_with(&format!(" {}", PUBLICATIONS - first)), "{reply}");
    for expected in first..PUBLICATIONS {
        let line = slow.hear().unwrap();
        assert_eq!(number(&json!(line.strip_prefix("MSG a - ").unwrap())), expected);
    }
    bench.end();
}

#[test]
fn g01_a_slow_client_of_lines_is_disconnected_if_the_policy_says_so() {
    let bench = bench(SlowClientPolicy::Disconnect);
    let mut slow = bench.line_client();
    assert!(slow.ask("SUB a").starts_with("OK "));
    publish(&bench);
    let last = std::iter::from_fn(|| slow.hear()).last().unwrap();
    assert_eq!(last, "BYE this client reads too slowly: its queue is full");
    bench.end();
}

/// Sends what it is given until the gateway takes no more, or all is sent. Returns the number of bytes.
fn send_until_full(client: &WebSocketClient, bytes: &[u8]) -> usize {
    let mut stream = client.stream();
    stream.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let mut sent = 0;
    while let Ok(count) = stream.write(&bytes[sent..]) {
        sent += count;
        if sent == bytes.len() {
            break;
        }
    }
    sent
}

/// A client that asks for much and reads nothing: its commands wait, in the end unread; none is lost when it reads.
#[test]
fn r04_a_client_that_does_not_read_its_answers_gets_no_more_commands_carried_out() {
    const COMMANDS: usize = 20_000;
    let bench = Bench::with(|config| config.options.queue_messages = 50);
    let mut client = bench.websocket();
    for _ in 0..50 {
        client.ask(json!({"publish": {"topic": "a", "text": "x".repeat(10_000)}}));
    }
    let mut all = Vec::new();
    for id in 0..COMMANDS {
        let command = json!({"id": id, "history": {"topic": "a"}});
        all.extend_from_slice(&client.encoded(command.to_string()));
    }
    let sent = send_until_full(&client, &all);
    let carried_out = bench.counts().commands[0];
    assert!(carried_out < 2_000, "{carried_out} commands of {sent} bytes were taken");
    // Each answer has half a megabyte: all of those that were taken come, in order.
    for id in 0..60 {
        assert_eq!(client.next()["id"], id);
    }
    drop(client);
    bench.wait_for("the client leaves", |counts| counts.clients[0] == 0);
    bench.end();
}

#[test]
fn r04_a_batch_of_large_answers_is_not_made_before_the_client_reads() {
    let bench = Bench::with(|config| config.options.queue_bytes = 1 << 20);
    let mut client = bench.websocket();
    for _ in 0..50 {
        client.ask(json!({"publish": {"topic": "a", "text": "x".repeat(10_000)}}));
    }
    let batch: Vec<_> = (0..100).map(|id| json!({"id": id, "history": {"topic": "a"}})).collect();
    client.send(&Value::Array(batch));
    for id in 0..100 {
        let answer = client.next();
        assert_eq!(
            (&answer["id"], answer["ok"]["publications"].as_array().unwrap().len()),
            (&json!(id), 50)
        );
    }
    bench.end();
}
