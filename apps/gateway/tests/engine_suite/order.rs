//! Contract 1, 2, 3, 5 and 7: order, interest, positions, acknowledgement, threads.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use waterwheel::bytes::Bytes;
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::publication::{NewPublication, Publication, PublicationPayload};
use waterwheel_gateway::engine::{Engine, EngineSink, HistoryQuery, PresentClient};
use waterwheel_gateway::topic::name::Topic;

use super::bench::{
    Bench, EngineFixture, filter, json, member, number, poll_once, publish, topic, wait,
};

pub(crate) fn g08_publications_of_a_topic_reach_the_sink_in_order_each_once<F: EngineFixture>() {
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    let bench = Bench::new::<F>();
    bench.subscribe("t.*");
    let acknowledged: Vec<Position> = thread::scope(|scope| {
        let publishers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let engine = &*bench.engine;
                scope.spawn(move || {
                    let of_thread = (0..EACH).map(|n| {
                        publish(engine, ["t.a", "t.b", "t.c"][n as usize % 3], thread * EACH + n)
                    });
                    of_thread.collect::<Result<Vec<_>, _>>().unwrap()
                })
            })
            .collect();
        publishers.into_iter().flat_map(|publisher| publisher.join().unwrap()).collect()
    });
    let received = bench.sink.wait_count((THREADS * EACH) as usize);
    assert_each_once(&received, acknowledged);
    let mut last: HashMap<(Topic, u64), u64> = HashMap::new();
    for publication in &received {
        let thread = number(publication) / EACH;
        let before = last.insert((publication.topic.clone(), thread), number(publication));
        assert!(before < Some(number(publication)), "the order of a publisher");
    }
}

pub(crate) fn g08_a_batch_is_published_in_order_with_ascending_positions<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    bench.subscribe(">");
    let batch = (0..500).map(|n| json(["a", "b.c"][n % 2], n)).collect();
    let results = wait(bench.engine.publish(batch)).unwrap();
    let positions: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    assert!(positions.is_sorted_by(|a, b| b.is_after(*a)), "{positions:?}");
    let received = bench.sink.wait_count(500);
    assert_each_once(&received, positions.clone());
    let by_value: HashMap<_, _> = received.iter().map(|p| (number(p), p.position)).collect();
    let all = (0..500).map(|n| by_value[&n]);
    assert!(all.eq(positions), "the results are in the order of the batch");
}

pub(crate) fn g08_every_kind_of_payload_arrives_as_it_was_published<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    bench.subscribe("kinds");
    let payloads = [
        PublicationPayload::Json(r#"{"größe":[1,2,{"a":null}]}"#.into()),
        PublicationPayload::Text("zwei\r\nZeilen\0".into()),
        PublicationPayload::Text("".into()),
        PublicationPayload::Bytes(Bytes::from((0..=255).collect::<Vec<u8>>())),
        PublicationPayload::Bytes(Bytes::from(vec![b'x'; 100_000])),
    ];
    for (n, payload) in payloads.iter().enumerate() {
        let new = NewPublication {
            topic: topic("kinds"),
            payload: payload.clone(),
            from: (n % 2 == 0).then(|| "ann".into()),
            time: 1_760_000_000_000 + n as u64,
        };
        wait(bench.engine.publish(vec![new])).unwrap().remove(0).unwrap();
    }
    let received = bench.sink.wait_count(payloads.len());
    let held = bench.history("kinds", None, 10).publications;
    assert_eq!(received, held);
    for (n, (publication, payload)) in held.iter().zip(&payloads).enumerate() {
        assert_eq!(publication.payload, *payload);
        assert_eq!(publication.from.as_deref(), (n % 2 == 0).then_some("ann"));
        assert_eq!(publication.time, 1_760_000_000_000 + n as u64);
    }
}

pub(crate) fn g08_whatever_a_filter_matches_reaches_the_sink<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    let topics = ["a", "b", "a.b", "a.c", "b.b", "a.b.c", "x.y.z"];
    let filters = ["a", "a.*", "*.b", "a.>", "x.*.z"];
    for (round, text) in filters.iter().enumerate() {
        let position = bench.subscribe(text);
        let matching: Vec<_> = topics.iter().filter(|t| filter(text).matches(&topic(t))).collect();
        for (n, of) in topics.iter().enumerate() {
            let published = bench.publish(of, round * 100 + n);
            assert!(published.is_after(position));
        }
        for of in &matching {
            let n = topics.iter().position(|t| t == *of).unwrap();
            bench.sink.wait_for(of, (round * 100 + n) as u64);
        }
        bench.engine.unsubscribe(&filter(text));
    }
    let received = bench.sink.publications();
    let mut positions: Vec<_> = received.iter().map(|p| p.position.sequence).collect();
    positions.sort_unstable();
    positions.dedup();
    assert_eq!(positions.len(), received.len(), "overlapping filters repeat nothing");
}

pub(crate) fn g08_a_position_is_after_all_that_were_acknowledged_before<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    // Two threads publish in turn, to different topics: each knows what the other has been acknowledged.
    let (to_b, from_a) = mpsc::channel::<Position>();
    let (to_a, from_b) = mpsc::channel::<Position>();
    let start = bench.publish("a", 0);
    thread::scope(|scope| {
        let engine = &*bench.engine;
        scope.spawn(move || {
            for before in from_a {
                let position = publish(engine, "b", 1).unwrap();
                assert!(position.is_after(before));
                to_a.send(position).unwrap();
            }
        });
        let mut last = start;
        for _ in 0..200 {
            let position = publish(engine, "a", 2).unwrap();
            assert!(position.is_after(last));
            to_b.send(position).unwrap();
            last = from_b.recv().unwrap();
        }
        drop(to_b);
    });
    assert!(bench.subscribe("a").is_after(start), "a subscription begins at the last position");
}

pub(crate) fn g08_a_publication_whose_future_is_dropped_is_published<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    bench.subscribe("a");
    for n in 0..20 {
        let mut future = bench.engine.publish(vec![json("a", n)]);
        if n % 2 == 0 {
            let _ = poll_once(&mut future);
        }
        drop(future);
    }
    let received = bench.sink.wait_count(20);
    assert!(received.iter().map(|p| number(p)).eq(0..20));
}

/// Asks and publishes from within the calls of an engine.
#[derive(Debug, Default)]
struct CallingSink {
    engine: OnceLock<Arc<dyn Engine>>,
    echoes: std::sync::Mutex<Option<mpsc::Sender<Arc<Publication>>>>,
}

impl EngineSink for CallingSink {
    fn on_publication(&self, publication: Arc<Publication>) {
        let engine = self.engine.get().unwrap();
        assert!(engine.status().is_available);
        engine.enter(&publication.topic, &member("inner", None));
        drop(engine.presence(&publication.topic, 10));
        drop(engine.topics(10));
        engine.unsubscribe(&filter("nothing"));
        drop(engine.subscribe(&filter("other")));
        let filter = filter(">");
        drop(engine.history(HistoryQuery { filter, since: None, limit: 10 }));
        if publication.topic.as_str() == "call" {
            drop(engine.publish(vec![json("echo", number(&publication))]));
        } else if let Some(echoes) = &*self.echoes.lock().unwrap() {
            let _ = echoes.send(publication);
        }
    }

    fn on_gap(&self, _last: Option<Position>) {}

    fn on_presence(&self, topic: &Topic, member: &PresentClient, is_present: bool) {
        if is_present {
            self.engine.get().unwrap().leave(topic, &member.client);
        }
    }
}

pub(crate) fn g08_a_sink_may_call_the_engine<F: EngineFixture>() {
    let fixture = F::start();
    let (echoes, echoed) = mpsc::channel();
    let sink = Arc::new(CallingSink { echoes: Some(echoes).into(), ..CallingSink::default() });
    let engine = fixture.engine(HistoryLimits::default(), Arc::clone(&sink) as _);
    sink.engine.set(Arc::clone(&engine)).unwrap();
    for text in ["call", "echo"] {
        wait(engine.subscribe(&filter(text))).unwrap();
    }
    for n in 0..50 {
        publish(&*engine, "call", n).unwrap();
        let echo = echoed.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        assert_eq!(number(&echo), n);
    }
    wait(engine.close()).unwrap();
}

/// Asserts that every topic's publications are in order, and that they are those that were acknowledged.
pub(crate) fn assert_each_once(received: &[Arc<Publication>], mut acknowledged: Vec<Position>) {
    let mut last: HashMap<&Topic, Position> = HashMap::new();
    for publication in received {
        let before = last.insert(&publication.topic, publication.position);
        let is_in_order = before.is_none_or(|before| publication.position.is_after(before));
        assert!(is_in_order, "{} after {before:?}", publication.position);
    }
    let mut positions: Vec<_> = received.iter().map(|p| p.position.sequence).collect();
    positions.sort_unstable();
    acknowledged.sort_unstable_by_key(|position| position.sequence);
    assert!(positions.iter().eq(acknowledged.iter().map(|position| &position.sequence)));
}
