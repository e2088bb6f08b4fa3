//! Contract 6, the end of an engine, and everything at once.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;

use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::publication::Publication;
use waterwheel_gateway::engine::{EngineError, HistoryQuery};

use super::bench::{Bench, EngineFixture, RecordingSink, filter, json, member, topic, wait};
use super::order::assert_each_once;

pub(crate) fn g08_closing_hands_on_what_was_acknowledged<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    bench.subscribe(">");
    let acknowledged = thread::scope(|scope| {
        let publishers: Vec<_> = (0..3)
            .map(|_| {
                let engine = &*bench.engine;
                // Until the engine refuses, in batches.
                scope.spawn(move || {
                    let mut positions = Vec::new();
                    loop {
                        let batch = (0..10).map(|n| json("a", n)).collect();
                        let results = wait(engine.publish(batch)).unwrap_or_else(|e| vec![Err(e)]);
                        let refused = results.iter().find_map(|result| result.clone().err());
                        positions.extend(results.into_iter().flatten());
                        if let Some(error) = refused {
                            assert!(is_unavailable(&error), "{error}");
                            return positions;
                        }
                    }
                })
            })
            .collect();
        bench.sink.wait_count(100);
        wait(bench.engine.close()).unwrap();
        let all = publishers.into_iter().map(|publisher| publisher.join().unwrap());
        all.flatten().collect::<Vec<_>>()
    });
    let received = bench.sink.publications();
    let acknowledged_set: HashSet<_> = acknowledged.iter().copied().collect();
    let is_acknowledged = |p: &&Arc<Publication>| acknowledged_set.contains(&p.position);
    let of_acknowledged: Vec<_> = received.iter().filter(is_acknowledged).cloned().collect();
    assert_each_once(&of_acknowledged, acknowledged);
}

pub(crate) fn g08_a_closed_engine_is_unavailable_and_lets_its_sink_go<F: EngineFixture>() {
    let fixture = F::start();
    let sink = Arc::new(RecordingSink::default());
    let engine = fixture.engine(HistoryLimits::default(), Arc::clone(&sink) as _);
    assert!(engine.status().is_available);
    wait(engine.close()).unwrap();
    wait(engine.close()).unwrap();
    assert!(!engine.status().is_available);
    let published = wait(engine.publish(vec![json("a", 1)]));
    let published = published.and_then(|mut results| results.remove(0));
    let query = HistoryQuery { filter: filter("a"), since: None, limit: 1 };
    let failures = [
        published.map(drop),
        wait(engine.subscribe(&filter("a"))).map(drop),
        wait(engine.history(query)).map(drop),
        wait(engine.presence(&topic("a"), 1)).map(drop),
        wait(engine.topics(1)).map(drop),
    ];
    for failure in failures {
        assert!(is_unavailable(&failure.unwrap_err()));
    }
    engine.enter(&topic("a"), &member("c1", None));
    engine.leave(&topic("a"), "c1");
    engine.unsubscribe(&filter("a"));
    assert!(sink.calls().is_empty());
    assert_eq!(Arc::strong_count(&sink), 1, "the engine has dropped the sink");
}

pub(crate) fn g08_many_threads_at_once_keep_order_history_and_presence<F: EngineFixture>() {
    const THREADS: u64 = 8;
    const EACH: u64 = 100;
    let bench = Bench::new::<F>();
    bench.subscribe(">");
    let acknowledged: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let bench = &bench;
                scope.spawn(move || {
                    let own = format!("own.{thread}");
                    let me = member(&format!("c{thread}"), None);
                    let mut positions = Vec::new();
                    for n in 0..EACH {
                        positions.push(bench.publish(&own, n));
                        positions.push(bench.publish("shared", n));
                        bench.engine.enter(&topic("room"), &me);
                        let text = format!("own.{thread}.>");
                        wait(bench.engine.subscribe(&filter(&text))).unwrap();
                        let page = bench.history("own.*", positions.first().copied(), usize::MAX);
                        let own_read = page.publications.iter().filter(|p| p.topic.as_str() == own);
                        assert_eq!(own_read.count() as u64, n, "after the first");
                        bench.engine.unsubscribe(&filter(&text));
                        if n % 2 == 1 {
                            bench.engine.leave(&topic("room"), &me.client);
                        }
                        assert!(wait(bench.engine.presence(&topic("room"), 3)).unwrap().count <= 8);
                    }
                    positions
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let received = bench.sink.wait_count(acknowledged.len());
    assert_each_once(&received, acknowledged);
    assert_eq!(wait(bench.engine.presence(&topic("room"), 3)).unwrap().count, 0);
}

pub(crate) fn is_unavailable(error: &EngineError) -> bool {
    matches!(error, EngineError::Unavailable { .. })
}
