//! The part of a snapshot that is about the gateway: clients, traffic, engine, topics, slow work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use waterwheel::channel::timeout;
use waterwheel::executor::{Clock, Nanos};

use super::live::{SnapshotFuture, SnapshotSource};
use super::loop_sample::LoopSample;
use super::slow_log::{SlowEntry, SlowLog};
use super::snapshot::{EngineFacts, LiveSnapshot, ProcessFacts, SlowRow, TopicRow, TrafficFacts};
use crate::client_protocol::ClientProtocol;
use crate::engine::{EngineStatus, TopicFacts};
use crate::metrics::counters::GatewayCounts;
use crate::session::core::GatewayCore;
use crate::session::reply::TopicReport;

/// How many topics the page shows: the busiest.
const SHOWN_TOPICS: usize = 30;

/// The number of topics among which the busiest are found, once a second. Each costs a walk through the subscriptions: a
/// millisecond for all.
const LISTED_TOPICS: usize = 1_000;

/// How long the engine may take to list its topics: the snapshot of a second is not held back for longer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Says what the page shows of a gateway besides its loops.
#[derive(Debug)]
pub struct GatewaySource {
    core: Arc<GatewayCore>,
    slow: Arc<SlowLog>,
    slow_limit: Option<Duration>,
    started: Nanos,
    /// Publications and deliveries at the last snapshot. Locked on the loop that samples, and there alone.
    before: Mutex<Option<(u64, u64)>>,
}

impl GatewaySource {
    /// Creates the source of a gateway that starts now. `slow_limit` is that of the watchdog which writes to `slow`.
    #[must_use]
    pub fn new(core: Arc<GatewayCore>, slow: Arc<SlowLog>, slow_limit: Option<Duration>) -> Self {
        let started = Clock::Monotonic.now();
        Self { core, slow, slow_limit, started, before: Mutex::default() }
    }

    fn traffic(&self, elapsed: Option<Duration>) -> TrafficFacts {
        let counts = self.core.counters().counts();
        let delivered: u64 = counts.delivered.iter().sum();
        let now = (counts.published, delivered);
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let (published_before, delivered_before) = before.replace(now).unwrap_or(now);
        drop(before);
        // The counts of the last snapshot are those of long ago if nobody has looked since.
        let seconds = elapsed.map_or(f64::INFINITY, |elapsed| elapsed.as_secs_f64());
        let rate = |now: u64, before: u64| {
            now.saturating_sub(before) as f64 / seconds.max(f64::MIN_POSITIVE)
        };
        TrafficFacts {
            clients: clients_by_protocol(&counts),
            subscriptions: counts.subscriptions,
            published: counts.published,
            published_rate: rate(counts.published, published_before),
            delivered,
            delivered_rate: rate(delivered, delivered_before),
            missed: counts.missed.iter().sum(),
            recovered: counts.recovered,
            gaps: counts.gaps,
            refused: counts.refusals().collect(),
            draining: self.core.is_draining(),
        }
    }

    fn slow_rows(&self) -> Vec<SlowRow> {
        self.slow.entries().into_iter().map(slow_row).collect()
    }
}

impl SnapshotSource for GatewaySource {
    fn snapshot(
        self: Arc<Self>,
        loops: Vec<LoopSample>,
        elapsed: Option<Duration>,
    ) -> SnapshotFuture {
        Box::pin(async move {
            // An engine that does not answer has no topics to show; its state says why.
            let report = match timeout(PATIENCE, self.core.list_topics(LISTED_TOPICS)).await {
                Ok(Ok(report)) => report,
                Ok(Err(_)) | Err(_) => TopicReport::default(),
            };
            let engine = self.core.engine();
            let (topics, listed_topics) = (busiest(&report.topics), report.topics.len());
            LiveSnapshot {
                version: env!("CARGO_PKG_VERSION"),
                uptime: Clock::Monotonic.now().since(self.started).as_secs_f64(),
                gateway: self.traffic(elapsed),
                engine: engine_facts(engine.name(), engine.status()),
                process: ProcessFacts { memory: resident_memory().unwrap_or(0) },
                loops,
                topics,
                listed_topics,
                more_topics: report.has_more,
                slow: self.slow_rows(),
                slow_limit: self.slow_limit.map(micros),
            }
        })
    }
}

fn engine_facts(name: &'static str, status: EngineStatus) -> EngineFacts {
    EngineFacts {
        name,
        available: status.is_available,
        description: status.description,
        lag: status.lag.map(micros),
        reconnects: status.reconnects,
        topics: status.topics,
        publications: status.held_publications,
        bytes: status.held_bytes,
    }
}

fn clients_by_protocol(counts: &GatewayCounts) -> BTreeMap<&'static str, u64> {
    ClientProtocol::ALL.iter().map(|protocol| protocol.name()).zip(counts.clients).collect()
}

/// Returns the topics with the most publications per second, then with the most subscribers.
fn busiest(topics: &[(TopicFacts, usize)]) -> Vec<TopicRow> {
    let mut topics: Vec<&(TopicFacts, usize)> = topics.iter().collect();
    topics.sort_by(|(a, a_subscribers), (b, b_subscribers)| {
        b.rate.total_cmp(&a.rate).then(b_subscribers.cmp(a_subscribers))
    });
    topics.truncate(SHOWN_TOPICS);
    let row = |(facts, subscribers): &(TopicFacts, usize)| TopicRow {
        topic: facts.topic.to_string(),
        subscribers: *subscribers,
        rate: facts.rate,
        published: facts.published,
        history: facts.history,
    };
    topics.into_iter().map(row).collect()
}

fn slow_row(entry: SlowEntry) -> SlowRow {
    let SlowEntry { what, executor, since, times, longest, is_over } = entry;
    #[allow(clippy::disallowed_methods, reason = "the watchdog tells the time of day")]
    let now = SystemTime::now();
    SlowRow {
        what,
        executor: executor.to_string(),
        ago: now.duration_since(since).unwrap_or_default().as_secs_f64(),
        times,
        micros: micros(longest),
        is_over,
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the resident memory of this process in bytes, as Linux tells it.
fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::limits::TopicLimits;
    use crate::topic::name::Topic;

    #[test]
    fn g04_the_busiest_topics_come_first_and_the_rest_is_left_out() {
        let limits = TopicLimits::default();
        let topics: Vec<(TopicFacts, usize)> = (0..100)
            .map(|n| {
                let topic = Topic::parse(&format!("t{n}"), &limits).unwrap();
                let rate = f64::from(n / 2);
                (TopicFacts { topic, published: 1, history: 1, rate }, (n % 2) as usize)
            })
            .collect();
        let rows = busiest(&topics);
        assert_eq!(rows.len(), SHOWN_TOPICS);
        let names: Vec<&str> = rows.iter().take(3).map(|row| row.topic.as_str()).collect();
        assert_eq!(names, ["t99", "t98", "t97"]);
    }

    #[test]
    fn g08_the_page_is_told_the_lag_and_the_reconnects_of_an_engine() {
        let away = EngineStatus { description: "away".to_owned(), ..EngineStatus::default() };
        let status = EngineStatus {
            is_available: true,
            description: "connected".to_owned(),
            reconnects: 3,
            lag: Some(Duration::from_micros(1_500)),
            topics: 7,
            ..EngineStatus::default()
        };
        let json = |status| serde_json::to_value(engine_facts("redis", status)).unwrap();
        let expected = serde_json::json!({
            "name": "redis", "available": true, "description": "connected", "lag": 1_500.0,
            "reconnects": 3, "topics": 7, "publications": 0, "bytes": 0,
        });
        assert_eq!(json(status), expected);
        assert_eq!(json(away)["lag"], serde_json::Value::Null);
    }

    #[test]
    fn g04_the_resident_memory_is_that_of_a_process() {
        let memory = resident_memory().unwrap();
        assert!((100 << 10..100 << 30).contains(&memory), "{memory} bytes");
    }
}
