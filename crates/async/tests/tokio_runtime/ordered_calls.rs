//! Calls into the runtime from a pipeline: `AsyncHandler` keeps the order of the answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use waterwheel_async::{AsyncHandler, OrderedAnswers, TokioRuntime};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use super::support::{DropCounter, drive, panic_quietly};

/// Requests under way at most.
const MAX_CONCURRENT: usize = 4;

/// The ends of calls by their numbers: the test completes a call through its sender.
type Calls = Arc<Mutex<HashMap<u32, oneshot::Sender<Reply>>>>;

enum Reply {
    Text(String),
    Panic,
}

struct Lookup {
    runtime: TokioRuntime,
    calls: Calls,
    tasks: DropCounter,
}

impl AsyncHandler for Lookup {
    type Request = u32;
    type Response = String;

    async fn call(&self, number: u32) -> Result<String, Error> {
        let (calls, guard) = (self.calls.clone(), self.tasks.guard());
        let task = self.runtime.labelled("lookup").spawn(async move {
            let (sender, reply) = oneshot::channel();
            calls.lock().unwrap().insert(number, sender);
            let reply = reply.await.unwrap();
            drop(guard);
            match reply {
                Reply::Text(text) => text,
                Reply::Panic => panic_quietly("no such table"),
            }
        });
        Ok(task.await?)
    }

    fn answer_error(&self, error: Error) -> Result<String, Error> {
        Ok(format!("error: {error}"))
    }
}

/// A connection whose requests are numbers, on a manual loop, and a runtime that the test drives.
struct Connection {
    channel: Embedded,
    tokio: Runtime,
    calls: Calls,
    tasks: DropCounter,
}

impl Connection {
    fn new() -> Self {
        let tokio = Builder::new_current_thread().build().unwrap();
        let runtime = TokioRuntime::new(tokio.handle().clone());
        let (calls, tasks) = (Calls::default(), DropCounter::default());
        let lookup = Lookup { runtime, calls: calls.clone(), tasks: tasks.clone() };
        let channel = Embedded::new(|edit| {
            let answers = OrderedAnswers::builder(lookup).max_concurrent(MAX_CONCURRENT).build()?;
            edit.add_last("answers", answers)?;
            Ok(())
        });
        Self { channel: channel.unwrap(), tokio, calls, tasks }
    }

    /// Lets the peer send requests, and their calls begin.
    fn request(&mut self, numbers: std::ops::Range<u32>) {
        self.channel.write_inbound_all(numbers.map(Into::into));
        drive(&self.tokio);
    }

    /// Completes a call on the runtime, and brings the output to the loop.
    fn reply(&mut self, number: u32, reply: Reply) {
        let sender = self.calls.lock().unwrap().remove(&number).expect("the call is under way");
        assert!(sender.send(reply).is_ok());
        drive(&self.tokio);
        self.channel.run();
        drive(&self.tokio); // A request that waited for this one may have begun.
    }

    fn answers(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.channel.read_outbound()).collect()
    }
}

fn text(number: u32) -> Reply {
    Reply::Text(format!("answer {number}"))
}

#[test]
fn a05_pipelined_requests_whose_tokio_calls_finish_in_reverse_order_are_answered_in_order() {
    let mut connection = Connection::new();
    connection.request(0..4);
    for number in [3, 2, 1] {
        connection.reply(number, text(number));
        assert!(connection.answers().is_empty(), "the first answer is missing");
    }
    connection.reply(0, text(0));
    assert_eq!(connection.answers(), ["answer 0", "answer 1", "answer 2", "answer 3"]);
    assert_eq!(connection.tasks.alive(), 1, "the handler's own");
}

#[test]
fn a05_at_most_the_limit_of_tasks_of_a_connection_is_on_the_runtime() {
    let mut connection = Connection::new();
    connection.request(0..20);
    assert_eq!(connection.tokio.metrics().num_alive_tasks(), MAX_CONCURRENT);
    for number in 0..20 {
        connection.reply(number, text(number));
        assert!(connection.tokio.metrics().num_alive_tasks() <= MAX_CONCURRENT);
    }
    assert_eq!(connection.answers().len(), 20);
}

#[test]
fn a05_a_channel_that_closes_takes_its_tasks_along() {
    let mut connection = Connection::new();
    connection.request(0..3);
    connection.reply(1, text(1)); // Waits for its turn.
    assert_eq!(connection.tokio.metrics().num_alive_tasks(), 2);
    connection.channel.close();
    drive(&connection.tokio);
    assert_eq!(connection.tokio.metrics().num_alive_tasks(), 0);
    assert_eq!(connection.tasks.dropped(), 3);
    assert!(connection.answers().is_empty());
    for sender in connection.calls.lock().unwrap().values() {
        assert!(sender.is_closed());
    }
}

#[test]
fn a05_a_panic_on_the_runtime_is_an_answer_in_its_turn() {
    let mut connection = Connection::new();
    connection.request(0..3);
    connection.reply(1, Reply::Panic);
    connection.reply(2, text(2));
    connection.reply(0, text(0));
    let panicked = "error: tokio task from lookup panicked: no such table";
    assert_eq!(connection.answers(), ["answer 0", panicked, "answer 2"]);
}

#[test]
fn a05_a_runtime_that_is_gone_is_an_answer_and_not_a_hang() {
    let mut connection = Connection::new();
    connection.request(0..2);
    let Connection { mut channel, tokio, tasks, .. } = connection;
    drop(tokio);
    channel.run();
    channel.write_inbound(2u32);
    let answers: Vec<String> = std::iter::from_fn(|| channel.read_outbound()).collect();
    let gone = "error: tokio task from lookup was dropped: its runtime is shut down";
    assert_eq!(answers, [gone; 3]);
    assert_eq!(tasks.dropped(), 3);
}

proptest! {
    /// Replies to the calls under way in a random order, with requests and turns of the loop between.
    #[test]
    fn a05_answers_have_the_order_of_their_requests(
        count in 1u32..30,
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 30),
        batch in 1u32..6,
    ) {
        let mut connection = Connection::new();
        let (mut sent, mut answers) = (0, Vec::new());
        for pick in picks.iter().take(count as usize) {
            let end = (sent + batch).min(count);
            connection.request(sent..end);
            sent = end;
            let mut under_way: Vec<u32> = connection.calls.lock().unwrap().keys().copied().collect();
            under_way.sort_unstable();
            prop_assert!(under_way.len() <= MAX_CONCURRENT);
            let number = under_way[pick.index(under_way.len())];
            connection.reply(number, text(number));
            answers.extend(connection.answers());
        }
        let expected: Vec<_> = (0..count).map(|number| format!("answer {number}")).collect();
        prop_assert_eq!(answers, expected);
    }
}
