//! Contract 4: the history, its limits, its gaps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::position::Position;

use super::bench::{Bench, EngineFixture, number, publish, wait};

pub(crate) fn g08_a_history_is_read_page_by_page<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    let start = bench.publish("other", 0);
    let positions: Vec<_> = (0..25).map(|n| bench.publish("a", n)).collect();
    let mut since = Some(start);
    let mut read = Vec::new();
    loop {
        let page = bench.history("a", since, 10);
        assert!(!page.has_gap);
        assert!(page.publications.len() <= 10);
        read.extend(page.publications.iter().map(|p| number(p)));
        since = page.publications.last().map(|p| p.position);
        if !page.has_more {
            assert_eq!(page.position, positions[24]);
            break;
        }
        assert_eq!(page.publications.len(), 10);
    }
    assert!(read.iter().copied().eq(0..25), "{read:?}");
    let all = bench.history("a", None, 100);
    assert!(all.publications.iter().map(|p| p.position).eq(positions));
    assert!(!all.has_gap && !all.has_more);
    let exact = bench.history("a", None, 25);
    assert!(exact.publications.len() == 25 && !exact.has_more);
    let none = bench.history("a", None, 0);
    assert!(none.publications.is_empty() && none.has_more);
    let absent = bench.history("b", Some(start), 10);
    assert!(absent.publications.is_empty() && !absent.has_gap && !absent.has_more);
    assert_eq!(absent.position, all.position);
}

pub(crate) fn g08_a_history_with_wildcards_has_the_order_of_positions<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    let topics = ["chat.a", "chat.b", "chat.b.c", "chatter.a", "news", "chat.ä"];
    for n in 0..60 {
        bench.publish(topics[n % topics.len()], n);
    }
    let numbers = |text: &str, limit| {
        let page = bench.history(text, None, limit);
        let positions: Vec<_> = page.publications.iter().map(|p| p.position).collect();
        assert!(positions.is_sorted_by(|a, b| b.is_after(*a)));
        (page.publications.iter().map(|p| number(p) as usize).collect::<Vec<_>>(), page.has_more)
    };
    let of = |wanted: &[usize], limit| {
        let all: Vec<_> = (0..60).filter(|n| wanted.contains(&(n % 6))).collect();
        (all[..all.len().min(limit)].to_vec(), all.len() > limit)
    };
    for limit in [1, 7, 60, 100] {
        assert_eq!(numbers(">", limit), of(&[0, 1, 2, 3, 4, 5], limit));
        assert_eq!(numbers("chat.*", limit), of(&[0, 1, 5], limit));
        assert_eq!(numbers("chat.>", limit), of(&[0, 1, 2, 5], limit));
        assert_eq!(numbers("*.a", limit), of(&[0, 3], limit));
        assert_eq!(numbers("nothing.>", limit), (vec![], false));
    }
}

pub(crate) fn g08_a_history_keeps_the_newest_within_its_limits_and_tells_the_gap<
    F: EngineFixture,
>() {
    let limits = HistoryLimits::builder().topic_publications(10).build().unwrap();
    let bench = Bench::with_limits::<F>(limits);
    let before = bench.publish("quiet", 0);
    let positions: Vec<_> = (0..25).map(|n| bench.publish("a", n)).collect();
    let page = bench.history("a", Some(before), 100);
    assert!(page.publications.iter().map(|p| number(p)).eq(15..25));
    assert!(page.has_gap);
    // The last evicted one was the fifteenth: who has seen it misses nothing.
    for (since, is_gap) in [(13, true), (14, false), (20, false)] {
        let page = bench.history("a", Some(positions[since]), 100);
        assert_eq!(page.has_gap, is_gap, "{since}");
        assert!(page.publications.iter().all(|p| p.position.is_after(positions[since])));
    }
    assert!(!bench.history("a", None, 100).has_gap, "nothing was asked for that is missing");
    assert!(!bench.history("quiet", Some(before), 100).has_gap, "another topic");
    assert!(bench.history(">", Some(before), 100).has_gap, "one of the topics");
}

pub(crate) fn g08_a_position_of_another_epoch_is_a_gap<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    let positions: Vec<_> = (0..5).map(|n| bench.publish("a", n)).collect();
    let last = positions[4];
    let foreign = Position { epoch: last.epoch ^ 1, sequence: 3 };
    // A position that was not given yet: of an engine that has lost its state.
    let future = Position { sequence: last.sequence + 1, ..last };
    for since in [foreign, future] {
        for filter in ["a", ">"] {
            let page = bench.history(filter, Some(since), 100);
            assert!(page.has_gap, "{since}");
            assert_eq!(page.publications.len(), 5, "all that is there follows");
        }
    }
}

pub(crate) fn g08_an_acknowledged_publication_is_in_the_history<F: EngineFixture>() {
    let bench = Bench::new::<F>();
    thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let bench = &bench;
            scope.spawn(move || {
                for n in 0..100 {
                    let position = bench.publish(name, n);
                    let page = bench.history(name, None, 1_000);
                    assert_eq!(page.publications.last().unwrap().position, position);
                    assert!(!position.is_after(page.position));
                }
            });
        }
    });
}

pub(crate) fn g08_a_resumed_subscription_misses_nothing_and_repeats_nothing<F: EngineFixture>() {
    for filter in ["t.a", "t.>"] {
        // Wide enough that nothing leaves the history, however fast the publisher is.
        let limits = HistoryLimits::builder().topic_publications(usize::MAX).topic_bytes(64 << 20);
        let bench = Bench::with_limits::<F>(limits.build().unwrap());
        let start = bench.publish("t.a", 0);
        let is_done = AtomicBool::new(false);
        let (last, position, page) = thread::scope(|scope| {
            let publisher = scope.spawn(|| {
                let mut n = 0;
                while !is_done.load(Ordering::Relaxed) {
                    n += 1;
                    publish(&*bench.engine, "t.a", n).unwrap();
                }
                n
            });
            // As a hub does: the subscription first, then the history up to some position, then what the sink got after it.
            let position = bench.subscribe(filter);
            let page = bench.history(filter, Some(start), usize::MAX);
            is_done.store(true, Ordering::Relaxed);
            (publisher.join().unwrap(), position, page)
        });
        assert!(!page.has_more && !page.has_gap);
        assert!(!position.is_after(page.position));
        let fresh = publish(&*bench.engine, "t.a", last + 1).unwrap();
        bench.sink.wait_for("t.a", last + 1);
        let pushed = bench.sink.publications();
        let pushed = pushed.iter().filter(|p| p.position.is_after(page.position));
        let all: Vec<_> = page.publications.iter().chain(pushed).map(|p| number(p)).collect();
        assert!(all.iter().copied().eq(1..=last + 1), "{all:?}");
        assert!(fresh.is_after(page.position));
    }
}

pub(crate) fn g08_topics_are_told_with_their_numbers<F: EngineFixture>() {
    let limits = HistoryLimits::builder().topic_publications(3).build().unwrap();
    let bench = Bench::with_limits::<F>(limits);
    for name in ["b", "a", "c.d"] {
        for n in 0..5 {
            bench.publish(name, n);
        }
    }
    let page = wait(bench.engine.topics(2)).unwrap();
    assert!(page.has_more);
    assert!(page.topics.iter().map(|facts| facts.topic.as_str()).eq(["a", "b"]));
    let page = wait(bench.engine.topics(3)).unwrap();
    assert!(!page.has_more);
    for facts in &page.topics {
        assert_eq!((facts.published, facts.history), (5, 3), "{facts:?}");
        assert!(facts.rate > 0.0 && facts.rate <= 5.0, "{facts:?}");
    }
}
