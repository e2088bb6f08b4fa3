//! An engine that takes its time: calls wait until a gate is opened.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use waterwheel_gateway::engine::memory::MemoryEngine;
use waterwheel_gateway::engine::position::Position;
use waterwheel_gateway::engine::publication::NewPublication;
use waterwheel_gateway::engine::{
    Engine, EngineError, EngineFuture, EngineStatus, HistoryPage, HistoryQuery, PresencePage,
    PresentClient, TopicPage,
};
use waterwheel_gateway::topic::filter::TopicFilter;
use waterwheel_gateway::topic::name::Topic;

/// Opens and closes the way into an engine for publications and histories.
#[derive(Clone, Debug, Default)]
pub(crate) struct EngineGate(Arc<Mutex<GateState>>);

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    waiting: Vec<Waker>,
}

/// An engine behind a gate.
#[derive(Debug)]
pub(crate) struct GatedEngine {
    memory: MemoryEngine,
    gate: EngineGate,
}

impl EngineGate {
    pub(crate) fn close(&self) {
        self.0.lock().unwrap().is_closed = true;
    }

    pub(crate) fn open(&self) {
        let waiting = {
            let mut state = self.0.lock().unwrap();
            state.is_closed = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of calls that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().unwrap().waiting.len()
    }

    async fn pass(self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            match state.is_closed {
                true => {
                    state.waiting.push(context.waker().clone());
                    Poll::Pending
                }
                false => Poll::Ready(()),
            }
        })
        .await;
    }
}

impl GatedEngine {
    pub(crate) fn new(memory: MemoryEngine, gate: EngineGate) -> Self {
        Self { memory, gate }
    }

    fn behind<T: 'static>(&self, call: EngineFuture<T>) -> EngineFuture<T> {
        let gate = self.gate.clone();
        Box::pin(async move {
            gate.pass().await;
            call.await
        })
    }
}

impl Engine for GatedEngine {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn publish(
        &self,
        publications: Vec<NewPublication>,
    ) -> EngineFuture<Vec<Result<Position, EngineError>>> {
        self.behind(self.memory.publish(publications))
    }

    fn subscribe(&self, filter: &TopicFilter) -> EngineFuture<Position> {
        self.memory.subscribe(filter)
    }

    fn unsubscribe(&self, filter: &TopicFilter) {
        self.memory.unsubscribe(filter);
    }

    fn history(&self, query: HistoryQuery) -> EngineFuture<HistoryPage> {
        self.behind(self.memory.history(query))
    }

    fn enter(&self, topic: &Topic, member: &PresentClient) {
        self.memory.enter(topic, member);
    }

    fn leave(&self, topic: &Topic, client: &str) {
        self.memory.leave(topic, client);
    }

    fn presence(&self, topic: &Topic, limit: usize) -> EngineFuture<PresencePage> {
        self.memory.presence(topic, limit)
    }

    fn topics(&self, limit: usize) -> EngineFuture<TopicPage> {
        self.memory.topics(limit)
    }

    fn status(&self) -> EngineStatus {
        self.memory.status()
    }

    fn close(&self) -> EngineFuture<()> {
        self.memory.close()
    }
}
