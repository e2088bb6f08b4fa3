//! The tools of the suite: a sink that records, and calls that wait.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use waterwheel_gateway::engine::limits::HistoryLimits;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::publication::{NewPublication, Publication, PublicationPayload};
use waterwheel_gateway::engine::{
    Engine, EngineError, EngineSink, HistoryPage, HistoryQuery, PresentClient,
};
use waterwheel_gateway::topic::filter::TopicFilter;
use waterwheel_gateway::topic::limits::TopicLimits;
use waterwheel_gateway::topic::name::Topic;

/// The longest that a test waits for something that is to come.
const DEADLINE: Duration = Duration::from_secs(20);

/// Makes engines over one store, for one test.
pub(crate) trait EngineFixture: Send + Sync + 'static {
    /// True if the program that the store needs is installed. Without it, the tests print a note and pass.
    fn is_installed() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Starts the store.
    fn start() -> Self
    where
        Self: Sized;

    /// Starts an engine over the store.
    fn engine(&self, limits: HistoryLimits, sink: Arc<dyn EngineSink>) -> Arc<dyn Engine>;
}

/// An engine with a sink that records.
pub(crate) struct Bench {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) sink: Arc<RecordingSink>,
    /// Dropped last: the store outlives its engines.
    _fixture: Arc<dyn EngineFixture>,
}

impl Bench {
    /// Starts an engine with default limits.
    pub(crate) fn new<F: EngineFixture>() -> Self {
        Self::with_limits::<F>(HistoryLimits::default())
    }

    /// Starts an engine.
    pub(crate) fn with_limits<F: EngineFixture>(limits: HistoryLimits) -> Self {
        let fixture = Arc::new(F::start());
        let sink = Arc::new(RecordingSink::default());
        let engine = fixture.engine(limits, Arc::clone(&sink) as _);
        Self { engine, sink, _fixture: fixture }
    }

    /// Subscribes to a filter.
    pub(crate) fn subscribe(&self, text: &str) -> Position {
        wait(self.engine.subscribe(&filter(text))).unwrap()
    }

    /// Publishes one JSON value.
    pub(crate) fn publish(&self, text: &str, value: impl ToString) -> Position {
        publish(&*self.engine, text, value).unwrap()
    }

    /// Reads a history.
    pub(crate) fn history(&self, text: &str, since: Option<Position>, limit: usize) -> HistoryPage {
        wait(self.engine.history(HistoryQuery { filter: filter(text), since, limit })).unwrap()
    }
}

/// Publishes one JSON value.
pub(crate) fn publish(
    engine: &dyn Engine,
    text: &str,
    value: impl ToString,
) -> Result<Position, EngineError> {
    let mut results = wait(engine.publish(vec![json(text, value)]))?;
    assert_eq!(results.len(), 1);
    results.remove(0)
}

/// Makes a publication of a JSON value.
pub(crate) fn json(text: &str, value: impl ToString) -> NewPublication {
    NewPublication {
        topic: topic(text),
        payload: PublicationPayload::Json(value.to_string().into()),
        from: None,
        time: 1_760_000_000_000,
    }
}

/// Returns a publication's JSON value as a number.
pub(crate) fn number(publication: &Publication) -> u64 {
    match &publication.payload {
        PublicationPayload::Json(text) => text.parse().unwrap(),
        other => panic!("no JSON: {other:?}"),
    }
}

pub(crate) fn topic(text: &str) -> Topic {
    Topic::parse(text, &TopicLimits::default()).unwrap()
}

pub(crate) fn filter(text: &str) -> TopicFilter {
    TopicFilter::parse(text, &TopicLimits::default()).unwrap()
}

pub(crate) fn member(client: &str, user: Option<&str>) -> PresentClient {
    PresentClient { client: client.into(), user: user.map(Into::into) }
}

/// A call of the sink.
#[derive(Clone, Debug)]
pub(crate) enum SinkCall {
    Publication(Arc<Publication>),
    Gap(Option<Position>),
    Presence { topic: Topic, member: PresentClient, is_present: bool },
}

/// Records what an engine hands on.
#[derive(Debug, Default)]
pub(crate) struct RecordingSink {
    calls: Mutex<Vec<SinkCall>>,
    changed: Condvar,
}

impl RecordingSink {
    /// Returns what was recorded.
    pub(crate) fn calls(&self) -> MutexGuard<'_, Vec<SinkCall>> {
        self.calls.lock().unwrap()
    }

    /// Returns the publications that were recorded.
    pub(crate) fn publications(&self) -> Vec<Arc<Publication>> {
        publications(&self.calls())
    }

    /// Waits until the calls are as wanted, and returns them.
    pub(crate) fn wait_until(&self, is_wanted: impl Fn(&[SinkCall]) -> bool) -> Vec<SinkCall> {
        let calls = self.calls();
        let (calls, timeout) =
            self.changed.wait_timeout_while(calls, DEADLINE, |calls| !is_wanted(calls)).unwrap();
        assert!(!timeout.timed_out(), "not in time; recorded: {calls:?}");
        calls.clone()
    }

    /// Waits until a publication of this value was recorded for a topic.
    pub(crate) fn wait_for(&self, text: &str, value: u64) {
        self.wait_until(|calls| {
            publications(calls).iter().rev().any(|p| p.topic.as_str() == text && number(p) == value)
        });
    }

    /// Waits until as many publications were recorded, and returns them.
    pub(crate) fn wait_count(&self, count: usize) -> Vec<Arc<Publication>> {
        publications(&self.wait_until(|calls| publications(calls).len() >= count))
    }

    /// Waits until the sink was told of as many gaps, and returns them.
    pub(crate) fn wait_gaps(&self, count: usize) -> Vec<Option<Position>> {
        gaps(&self.wait_until(|calls| gaps(calls).len() >= count))
    }

    /// Returns the positions that a hub hands to its clients: what was pushed, and what the history has between the position
    /// of each gap and the next publication that was pushed, or the position of the next gap.
    pub(crate) fn replay_with_history(&self, engine: &dyn Engine, text: &str) -> Vec<Position> {
        let calls = self.calls().clone();
        let mut handed = Vec::new();
        for (i, call) in calls.iter().enumerate() {
            match call {
                SinkCall::Publication(publication) => handed.push(publication.position),
                SinkCall::Gap(since) => {
                    let query =
                        HistoryQuery { filter: filter(text), since: *since, limit: usize::MAX };
                    let page = wait(engine.history(query)).unwrap();
                    assert!(!page.has_gap, "since {since:?}");
                    let next = calls[i + 1..].iter().find_map(|call| match call {
                        SinkCall::Publication(next) => Some(next.position.sequence - 1),
                        SinkCall::Gap(since) => since.map(|since| since.sequence),
                        SinkCall::Presence { .. } => None,
                    });
                    let missed = page.publications.iter().map(|p| p.position);
                    let through = next.unwrap_or(u64::MAX);
                    handed.extend(missed.take_while(|p| p.sequence <= through));
                }
                SinkCall::Presence { .. } => {}
            }
        }
        handed
    }

    fn record(&self, call: SinkCall) {
        self.calls().push(call);
        self.changed.notify_all();
    }
}

impl EngineSink for RecordingSink {
    fn on_publication(&self, publication: Arc<Publication>) {
        self.record(SinkCall::Publication(publication));
    }

    fn on_gap(&self, last: Option<Position>) {
        self.record(SinkCall::Gap(last));
    }

    fn on_presence(&self, topic: &Topic, member: &PresentClient, is_present: bool) {
        let (topic, member) = (topic.clone(), member.clone());
        self.record(SinkCall::Presence { topic, member, is_present });
    }
}

fn publications(calls: &[SinkCall]) -> Vec<Arc<Publication>> {
    let only = calls.iter().filter_map(|call| match call {
        SinkCall::Publication(publication) => Some(Arc::clone(publication)),
        _ => None,
    });
    only.collect()
}

fn gaps(calls: &[SinkCall]) -> Vec<Option<Position>> {
    let only = calls.iter().filter_map(|call| match call {
        SinkCall::Gap(last) => Some(*last),
        _ => None,
    });
    only.collect()
}

/// Polls a future on this thread until it is ready, up to a deadline.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let woken = signal.woken.lock().unwrap();
        let (mut woken, timeout) =
            signal.changed.wait_timeout_while(woken, DEADLINE, |woken| !*woken).unwrap();
        assert!(!timeout.timed_out(), "a future was not ready in time");
        *woken = false;
    }
}

/// Polls a future once.
pub(crate) fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[derive(Default)]
struct Signal {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_all();
    }
}
