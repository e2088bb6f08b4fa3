//! The limits of what waits for the sink, the threads that call it, and what clients can make the engine keep.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::{self, ThreadId};

use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::memory::MemoryEngine;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::publication::{Publication, PublicationPayload};
use waterwheel_gateway::engine::{Engine, EngineSink, HistoryQuery, PresentClient};
use waterwheel_gateway::topic::name::Topic;

use crate::engine_suite::{
    RecordingSink, filter, json, member, number, poll_once, publish, topic, wait,
};

/// Says when it gets the first publication, and goes on when it may. Records the threads that call it.
#[derive(Debug)]
struct BlockedSink {
    reached: Mutex<Option<Sender<()>>>,
    go_on: Mutex<Receiver<()>>,
    received: Mutex<Vec<(u64, ThreadId)>>,
}

impl BlockedSink {
    fn new() -> (Arc<Self>, Receiver<()>, Sender<()>) {
        let (reached, is_reached) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel();
        let sink = Self {
            reached: Mutex::new(Some(reached)),
            go_on: Mutex::new(may_go_on),
            received: Mutex::default(),
        };
        (Arc::new(sink), is_reached, go_on)
    }
}

impl EngineSink for BlockedSink {
    fn on_publication(&self, publication: Arc<Publication>) {
        if let Some(reached) = self.reached.lock().unwrap().take() {
            reached.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
        let entry = (number(&publication), thread::current().id());
        self.received.lock().unwrap().push(entry);
    }

    fn on_gap(&self, _last: Option<Position>) {}

    fn on_presence(&self, _topic: &Topic, member: &PresentClient, _is_present: bool) {
        let entry = (member.client.parse().unwrap(), thread::current().id());
        self.received.lock().unwrap().push(entry);
    }
}

#[test]
fn g08_a_publisher_leaves_the_backlog_of_others_to_the_thread_of_the_engine() {
    let (sink, is_reached, go_on) = BlockedSink::new();
    let engine = MemoryEngine::new(HistoryLimits::default(), Arc::clone(&sink) as _);
    wait(engine.subscribe(&filter("a"))).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            publish(&engine, "a", 0).unwrap();
            thread::current().id()
        });
        is_reached.recv().unwrap();
        // The first publisher is in the sink: what others publish waits.
        let mut others: Vec<_> = (1..5_000).map(|n| engine.publish(vec![json("a", n)])).collect();
        assert!(others.iter_mut().all(|future| poll_once(future).is_pending()));
        assert_eq!(engine.status().in_flight, 5_000);
        go_on.send(()).unwrap();
        let first = first.join().unwrap();
        others.into_iter().for_each(|future| assert_eq!(wait(future).unwrap().len(), 1));
        let received = sink.received.lock().unwrap();
        assert!(received.iter().map(|(n, _)| *n).eq(0..5_000), "in order, each once");
        let by_first = received.iter().filter(|(_, thread)| *thread == first).count();
        assert!((1..=300).contains(&by_first), "{by_first}");
    });
    assert_eq!(engine.status().in_flight, 0);
}

#[test]
fn g08_what_waits_for_the_sink_is_limited_by_number() {
    let (sink, is_reached, go_on) = BlockedSink::new();
    let engine = MemoryEngine::new(HistoryLimits::default(), Arc::clone(&sink) as _);
    wait(engine.subscribe(&filter("a"))).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| publish(&engine, "a", 0).unwrap());
        is_reached.recv().unwrap();
        let results = {
            let mut future = engine.publish((1..20_000).map(|n| json("a", n)).collect());
            assert!(poll_once(&mut future).is_pending());
            // Notifications of presence beyond the limit are left out; the notes are not.
            engine.enter(&topic("a"), &member("77777", None));
            assert_eq!(wait(engine.presence(&topic("a"), 1)).unwrap().count, 1);
            assert!(engine.status().in_flight < 17_000, "{:?}", engine.status());
            assert!(engine.status().description.contains("faster"), "{:?}", engine.status());
            go_on.send(()).unwrap();
            wait(future).unwrap()
        };
        let accepted = results.iter().take_while(|result| result.is_ok()).count();
        assert!(accepted > 10_000 && results[accepted..].iter().all(Result::is_err), "{accepted}");
        let received = sink.received.lock().unwrap();
        assert!(received.iter().map(|(n, _)| *n).eq(0..=accepted as u64));
    });
    assert!(publish(&engine, "a", 1).is_ok(), "there is room again");
}

#[test]
fn g08_what_waits_for_the_sink_is_limited_by_bytes() {
    let (sink, is_reached, go_on) = BlockedSink::new();
    let engine = MemoryEngine::new(HistoryLimits::default(), Arc::clone(&sink) as _);
    wait(engine.subscribe(&filter("a"))).unwrap();
    let large = |n: u64| json("a", format!("{}{n}", "0".repeat(1_000_000)));
    thread::scope(|scope| {
        scope.spawn(|| publish(&engine, "a", 0).unwrap());
        is_reached.recv().unwrap();
        let mut futures: Vec<_> = (1..100).map(|n| engine.publish(vec![large(n)])).collect();
        let polled = futures.iter_mut().map(poll_once);
        let refused = polled.filter(|polled| match polled {
            Poll::Ready(results) => results.as_ref().unwrap()[0].is_err(),
            Poll::Pending => false,
        });
        assert!((30..40).contains(&refused.count()));
        go_on.send(()).unwrap();
    });
}

#[derive(Debug, Default)]
struct PanickingSink(RecordingSink);

impl EngineSink for PanickingSink {
    fn on_publication(&self, publication: Arc<Publication>) {
        let is_bad = number(&publication) % 2 == 1;
        self.0.on_publication(publication);
        assert!(!is_bad, "a panic of the sink");
    }

    fn on_gap(&self, _last: Option<Position>) {}

    fn on_presence(&self, _topic: &Topic, _member: &PresentClient, _is_present: bool) {}
}

#[test]
fn g08_a_panic_of_the_sink_costs_one_publication() {
    let sink = Arc::new(PanickingSink::default());
    let engine = MemoryEngine::new(HistoryLimits::default(), Arc::clone(&sink) as _);
    wait(engine.subscribe(&filter("a"))).unwrap();
    let batch = (0..10).map(|n| json("a", n)).collect();
    assert!(wait(engine.publish(batch)).unwrap().iter().all(Result::is_ok));
    assert!(sink.0.publications().iter().map(|p| number(p)).eq(0..10));
}

#[test]
fn g08_a_publication_that_no_filter_matches_is_not_handed_on() {
    let sink = Arc::new(RecordingSink::default());
    let engine = MemoryEngine::new(HistoryLimits::default(), Arc::clone(&sink) as _);
    wait(engine.subscribe(&filter("a.*"))).unwrap();
    publish(&engine, "b", 1).unwrap();
    engine.unsubscribe(&filter("a.*"));
    publish(&engine, "a.b", 2).unwrap();
    assert!(sink.calls().is_empty());
}

#[test]
fn g02_a_history_keeps_no_read_buffer() {
    let sink = Arc::new(RecordingSink::default());
    let engine = MemoryEngine::new(HistoryLimits::default(), sink);
    let buffer = waterwheel::bytes::Bytes::from(vec![b'1'; 1 << 20]);
    let mut publication = json("a", 0);
    publication.payload = PublicationPayload::Bytes(buffer.slice(..10));
    wait(engine.publish(vec![publication])).unwrap().remove(0).unwrap();
    assert!(buffer.is_unique(), "the engine has a copy");
}

#[test]
fn r04_a_long_history_is_read_in_steps_between_which_others_publish() {
    let engine = MemoryEngine::new(HistoryLimits::default(), Arc::new(RecordingSink::default()));
    // The oldest publications are in the topics that are read last.
    for name in (0..40).rev() {
        let batch = (0..250).map(|n| json(&format!("t{name:02}"), n)).collect();
        wait(engine.publish(batch)).unwrap();
    }
    let query = HistoryQuery { filter: filter(">"), since: None, limit: 300 };
    let mut reading = engine.history(query);
    let mut steps = 0;
    let page = loop {
        steps += 1;
        match poll_once(&mut reading) {
            Poll::Ready(page) => break page.unwrap(),
            Poll::Pending => publish(&engine, "t00", 0).unwrap(),
        };
    };
    assert!((5..20).contains(&steps), "{steps} steps for 10,000 publications");
    let sequences = page.publications.iter().map(|publication| publication.position.sequence);
    assert!(sequences.eq(1..=300) && page.has_more);
    assert_eq!(page.position.sequence, 10_000, "what came in meanwhile is for the next page");
}

#[test]
fn g02_topics_replace_those_published_to_the_longest_ago() {
    let limits = HistoryLimits::builder().topics(3).build().unwrap();
    let engine = MemoryEngine::new(limits, Arc::new(RecordingSink::default()));
    for name in ["a", "b", "c", "a", "d"] {
        publish(&engine, name, 1).unwrap();
    }
    let page = wait(engine.topics(10)).unwrap();
    assert!(page.topics.iter().map(|facts| facts.topic.as_str()).eq(["a", "c", "d"]));
    for n in 0..10_000 {
        publish(&engine, &format!("x{n}"), 1).unwrap();
    }
    assert_eq!((engine.status().topics, engine.status().held_publications), (3, 3));
}

#[test]
fn g02_every_run_has_an_epoch_of_its_own() {
    let epochs: Vec<_> = (0..4)
        .map(|_| {
            let sink = Arc::new(RecordingSink::default());
            let engine = MemoryEngine::new(HistoryLimits::default(), sink);
            publish(&engine, "a", 1).unwrap().epoch
        })
        .collect();
    assert!(epochs.iter().any(|epoch| *epoch != epochs[0]), "{epochs:?}");
}

#[test]
fn g08_an_engine_that_is_dropped_lets_its_sink_and_its_thread_go() {
    let (sink, is_reached, go_on) = BlockedSink::new();
    let engine = MemoryEngine::new(HistoryLimits::default(), Arc::clone(&sink) as _);
    wait(engine.subscribe(&filter("a"))).unwrap();
    thread::scope(|scope| {
        let publisher = scope.spawn(|| publish(&engine, "a", 0).unwrap());
        is_reached.recv().unwrap();
        let futures: Vec<_> = (1..1_000).map(|n| engine.publish(vec![json("a", n)])).collect();
        go_on.send(()).unwrap();
        publisher.join().unwrap();
        futures.into_iter().for_each(|future| drop(wait(future).unwrap()));
    });
    drop(engine);
    // The thread drops its reference after it has handed on the last entry.
    while Arc::strong_count(&sink) > 1 {
        thread::yield_now();
    }
}
