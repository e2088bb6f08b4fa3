//! Histories against a simple model: a list of all publications, of which the limits say how many are still there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use waterwheel::executor::{Clock, VirtualClock};
use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::memory::MemoryEngine;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::{Engine, HistoryQuery};

use crate::engine_suite::{RecordingSink, filter, publish, topic, wait};

const TOPICS: [&str; 5] = ["a", "a.b", "a.c", "b", "b.b.c"];
const FILTERS: [&str; 8] = ["a", "a.b", "b", ">", "a.*", "*.b", "b.>", "*"];
const MAX_AGE: u64 = 50;

#[derive(Clone, Debug)]
enum Step {
    Publish { topic: usize, len: usize },
    Pass(u64),
    Read { filter: usize, since: Option<u64>, limit: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..TOPICS.len(), 2_usize..400).prop_map(|(topic, len)| Step::Publish { topic, len }),
        1 => (1..40_u64).prop_map(Step::Pass),
        3 => (0..FILTERS.len(), proptest::option::of(0..60_u64), 0..12_usize)
            .prop_map(|(filter, since, limit)| Step::Read { filter, since, limit }),
    ];
    proptest::collection::vec(step, 1..80)
}

/// A publication in the model.
#[derive(Clone, Debug)]
struct Entry {
    sequence: u64,
    topic: usize,
    len: usize,
    second: u64,
    is_held: bool,
}

#[derive(Debug, Default)]
struct Model {
    entries: Vec<Entry>,
    /// Topics that are known, the one published to the longest ago first.
    topics: VecDeque<usize>,
    now: u64,
}

impl Model {
    fn publish(&mut self, topic: usize, len: usize, limits: &HistoryLimits, overhead: usize) {
        if let Some(at) = self.topics.iter().position(|known| *known == topic) {
            self.topics.remove(at);
        } else if self.topics.len() == limits.topics {
            let forgotten = self.topics.pop_front();
            self.drop_where(|entry| Some(entry.topic) == forgotten);
        }
        self.topics.push_back(topic);
        let sequence = self.entries.len() as u64 + 1;
        let entry = Entry { sequence, topic, len: len + overhead, second: self.now, is_held: true };
        self.entries.push(entry);
        while self.held(topic).count() > limits.topic_publications
            || self.held(topic).map(|entry| entry.len).sum::<usize>() > limits.topic_bytes
        {
            let oldest = self.held(topic).next().unwrap().sequence;
            self.drop_where(|entry| entry.sequence == oldest);
        }
        let mut total: usize = self.entries.iter().filter(|e| e.is_held).map(|e| e.len).sum();
        for entry in self.entries.iter_mut().filter(|entry| entry.is_held) {
            if total > limits.total_bytes {
                entry.is_held = false;
                total -= entry.len;
            }
        }
        self.expire();
    }

    fn expire(&mut self) {
        let now = self.now;
        self.drop_where(|entry| now - entry.second > MAX_AGE);
    }

    fn held(&self, topic: usize) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.is_held && entry.topic == topic)
    }

    fn drop_where(&mut self, is_dropped: impl Fn(&Entry) -> bool) {
        self.entries.iter_mut().for_each(|entry| entry.is_held &= !is_dropped(entry));
    }
}

/// The bytes that a publication counts beyond its payload, as the engine says.
fn overhead() -> usize {
    let engine = MemoryEngine::new(HistoryLimits::default(), Arc::new(RecordingSink::default()));
    publish(&engine, "a", 12).unwrap();
    engine.status().held_bytes as usize - 2
}

fn check(steps: &[Step], limits: HistoryLimits) {
    let clock = VirtualClock::new();
    let sink = Arc::new(RecordingSink::default());
    let engine = MemoryEngine::with_clock(limits, sink, Clock::Virtual(clock.clone()));
    let epoch = wait(engine.subscribe(&filter("a"))).unwrap().epoch;
    let overhead = overhead();
    let mut model = Model::default();
    for step in steps {
        match *step {
            Step::Publish { topic, len } => {
                let digits = "1".repeat(len);
                let position = publish(&engine, TOPICS[topic], digits).unwrap();
                model.publish(topic, len, &limits, overhead);
                assert_eq!(position.sequence, model.entries.len() as u64);
            }
            Step::Pass(seconds) => {
                clock.advance(Duration::from_secs(seconds));
                model.now += seconds;
                model.expire();
            }
            Step::Read { filter: chosen, since, limit } => {
                let filter = filter(FILTERS[chosen]);
                let asked = since.map(|sequence| Position { epoch, sequence });
                let query = HistoryQuery { filter: filter.clone(), since: asked, limit };
                let page = wait(engine.history(query)).unwrap();
                let is_known = since.is_none_or(|since| since <= model.entries.len() as u64);
                let after = since.filter(|_| is_known).unwrap_or(0);
                let matching = |entry: &&Entry| {
                    entry.sequence > after && filter.matches(&topic(TOPICS[entry.topic]))
                };
                let of_filter: Vec<_> = model.entries.iter().filter(matching).collect();
                let expected: Vec<_> =
                    of_filter.iter().filter(|e| e.is_held).map(|e| e.sequence).collect();
                let read = page.publications.iter().map(|p| p.position.sequence);
                assert!(read.eq(expected.iter().copied().take(limit)), "{page:?} {expected:?}");
                assert_eq!(page.has_more, expected.len() > limit);
                assert_eq!(page.position.sequence, model.entries.len() as u64);
                let is_missing =
                    since.is_some() && (!is_known || of_filter.iter().any(|e| !e.is_held));
                assert!(page.has_gap || !is_missing, "a gap that was not told: {page:?}");
                // Topics that were forgotten are known by one number only.
                let has_forgotten = limits.topics < TOPICS.len();
                assert!(is_missing || has_forgotten || !page.has_gap, "no gap: {page:?}");
            }
        }
        let held: Vec<_> = model.entries.iter().filter(|entry| entry.is_held).collect();
        let status = {
            let _ = wait(engine.history(nothing()));
            engine.status()
        };
        assert_eq!(status.held_publications, held.len() as u64);
        assert_eq!(status.held_bytes, held.iter().map(|entry| entry.len as u64).sum::<u64>());
        assert_eq!(status.topics, model.topics.len() as u64);
    }
}

/// A question that makes the engine evict what is too old.
fn nothing() -> HistoryQuery {
    HistoryQuery { filter: filter("nothing"), since: None, limit: 0 }
}

proptest! {
    #[test]
    fn g02_histories_are_those_of_the_model(
        steps in steps(),
        number in 0..8_usize,
        topic_bytes in 200..3_000_usize,
        total in 0..5_000_usize,
        topics in 1..8_usize,
    ) {
        let limits = HistoryLimits::builder()
            .topic_publications(number)
            .topic_bytes(topic_bytes)
            .total_bytes(topic_bytes + total)
            .max_age(Duration::from_secs(MAX_AGE))
            .topics(topics)
            .build()
            .unwrap();
        check(&steps, limits);
    }
}
