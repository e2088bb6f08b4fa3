//! An engine that does what the test says.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Poll, Waker};

use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::publication::{NewPublication, Publication, PublicationPayload};
use waterwheel_gateway::engine::{
    Engine, EngineError, EngineFuture, EngineSink, EngineStatus, HistoryPage, HistoryQuery,
    PresencePage, PresentClient, TopicPage,
};
use waterwheel_gateway::topic::filter::TopicFilter;
use waterwheel_gateway::topic::name::Topic;

use super::{EPOCH, position, topic_of};

/// An engine that does what the test says.
#[derive(Debug)]
pub(crate) struct ScriptedEngine {
    sink: Arc<dyn EngineSink>,
    state: Mutex<ScriptState>,
}

#[derive(Debug, Default)]
struct ScriptState {
    history: Vec<Arc<Publication>>,
    published: Vec<Weak<Publication>>,
    /// The number of the last publication; the engine may have forgotten some.
    last: u64,
    /// The publications before this number have been forgotten.
    first_kept: u64,
    /// True while calls wait.
    is_held: bool,
    waiting: Vec<Waker>,
    /// The number of the next calls that fail.
    failures: usize,
    calls: Vec<String>,
}

impl ScriptedEngine {
    /// Creates an engine that hands on to this sink.
    pub(super) fn new(sink: Arc<dyn EngineSink>) -> Self {
        Self { sink, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ScriptState> {
        self.state.lock().unwrap()
    }

    /// Lets calls wait, or go on.
    pub(crate) fn hold(&self, is_held: bool) {
        let waiting = {
            let mut state = self.lock();
            state.is_held = is_held;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Lets the next calls fail.
    pub(crate) fn fail(&self, calls: usize) {
        self.lock().failures = calls;
    }

    /// Returns the calls about filters so far.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Adds a publication whose text is its number. If it is lost, the sink is not told.
    pub(crate) fn add(&self, topic: &str, is_lost: bool) {
        let number = self.lock().last + 1;
        self.add_text(topic, number.to_string(), is_lost);
    }

    /// Adds a publication.
    pub(crate) fn add_text(&self, topic: &str, text: String, is_lost: bool) {
        let publication = {
            let mut state = self.lock();
            state.last += 1;
            let publication = Arc::new(Publication {
                topic: topic_of(topic),
                position: position(state.last),
                payload: PublicationPayload::Text(text.into()),
                from: None,
                time: 0,
            });
            state.history.push(publication.clone());
            state.published.push(Arc::downgrade(&publication));
            publication
        };
        if !is_lost {
            self.sink.on_publication(publication);
        }
    }

    /// Forgets the publications before a number.
    pub(crate) fn forget_before(&self, number: u64) {
        let mut state = self.lock();
        state.first_kept = number;
        state.history.retain(|each| each.position.sequence >= number);
    }

    /// Returns the number of publications that somebody holds.
    pub(crate) fn held(&self) -> usize {
        self.lock().published.iter().filter(|each| each.strong_count() > 0).count()
    }

    /// Tells the sink that publications may be missing.
    pub(crate) fn tell_gap(&self, last: Option<u64>) {
        self.sink.on_gap(last.map(position));
    }

    pub(crate) fn tell_presence(&self, topic: &str, client: &str, is_present: bool) {
        let member = PresentClient { client: client.into(), user: None };
        self.sink.on_presence(&topic_of(topic), &member, is_present);
    }

    /// Waits while calls are held, then fails or returns what `answer` returns.
    fn call<T: Send + 'static>(
        self: Arc<Self>,
        answer: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> EngineFuture<T> {
        Box::pin(async move {
            poll_fn(|context| {
                let mut state = self.lock();
                match state.is_held {
                    true => {
                        state.waiting.push(context.waker().clone());
                        Poll::Pending
                    }
                    false => Poll::Ready(()),
                }
            })
            .await;
            let fails = {
                let mut state = self.lock();
                let fails = state.failures > 0;
                state.failures = state.failures.saturating_sub(1);
                fails
            };
            match fails {
                true => Err(EngineError::Unavailable { engine: "script", reason: "a test".into() }),
                false => Ok(answer(&self)),
            }
        })
    }
}

/// The engine as the gateway has it: calls need a counted reference to the script.
#[derive(Debug)]
pub(super) struct EngineHandle(pub(super) Arc<ScriptedEngine>);

impl Engine for EngineHandle {
    fn name(&self) -> &'static str {
        "script"
    }

    fn publish(
        &self,
        publications: Vec<NewPublication>,
    ) -> EngineFuture<Vec<Result<Position, EngineError>>> {
        self.0.clone().call(move |engine| {
            let publish = |each: &NewPublication| {
                engine.add(each.topic.as_str(), false);
                Ok(position(engine.lock().last))
            };
            publications.iter().map(publish).collect()
        })
    }

    fn subscribe(&self, filter: &TopicFilter) -> EngineFuture<Position> {
        self.0.lock().calls.push(format!("subscribe {filter}"));
        self.0.clone().call(|engine| position(engine.lock().last))
    }

    fn unsubscribe(&self, filter: &TopicFilter) {
        self.0.lock().calls.push(format!("unsubscribe {filter}"));
    }

    fn history(&self, query: HistoryQuery) -> EngineFuture<HistoryPage> {
        self.0.clone().call(move |engine| {
            let state = engine.lock();
            let since = query.since.map_or(0, |since| since.sequence);
            let matches = |each: &&Arc<Publication>| {
                each.position.sequence > since && query.filter.matches(&each.topic)
            };
            let all: Vec<_> = state.history.iter().filter(matches).cloned().collect();
            HistoryPage {
                has_more: all.len() > query.limit,
                publications: all.into_iter().take(query.limit).collect(),
                position: position(state.last),
                has_gap: since + 1 < state.first_kept
                    || query.since.is_some_and(|since| since.epoch != EPOCH),
            }
        })
    }

    fn enter(&self, _: &Topic, _: &PresentClient) {}

    fn leave(&self, _: &Topic, _: &str) {}

    fn presence(&self, _: &Topic, _: usize) -> EngineFuture<PresencePage> {
        self.0.clone().call(|_| PresencePage::default())
    }

    fn topics(&self, _: usize) -> EngineFuture<TopicPage> {
        self.0.clone().call(|_| TopicPage::default())
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::default()
    }

    fn close(&self) -> EngineFuture<()> {
        self.0.clone().call(|_| ())
    }
}
