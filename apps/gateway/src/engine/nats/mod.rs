//! The engine behind several gateways: NATS.
//!
//! ```text
//!   gateway ── publish ──► stream of JetStream ── all of it, in its order ──► the copy in every gateway ──► its sink
//!                              │ number                                            │
//!                              └──► acknowledgement: the position                  └──► histories, from memory
//! ```
//!
//! # Rules
//!
//! 1. One stream holds the topics of a prefix, each as a subject. Its numbers are the positions, the time of its creation is the
//!    epoch: so there is one order over all topics, and a stream that was deleted is a gap.
//! 2. Every gateway reads the whole stream, from where it was, through an ordered consumer; it keeps the histories of
//!    [`HistoryLimits`] in memory. A call waits until the stream is read up to where it was when the call came.
//! 3. A publication is acknowledged when the stream has it, on as many servers as it has replicas. One that is not acknowledged is
//!    not sent again: it may have been published or not.
//! 4. Without JetStream, publications go from gateway to gateway as they are: a position is of one gateway, and whatever is published
//!    while it is not connected is lost and told as a gap.
//! 5. Everything happens in one task on one loop; see `task`.

mod calls;
mod ending;
mod events;
mod link;
pub mod options;
mod presence;
mod publishing;
mod requests;
mod stream;
mod task;
pub mod url;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel::channel::{EventLoop, EventLoopGroup};

use self::events::{CallPromise, EngineCall, EngineEvent, EventQueue};
use self::options::{NatsOptionError, NatsOptions};
use self::requests::unavailable;
use self::task::EngineTask;
use super::limits::HistoryLimits;
use super::position::Position;
use super::publication::NewPublication;
use super::{
    Engine, EngineError, EngineFuture, EngineSink, EngineStatus, HistoryPage, HistoryQuery,
    PresencePage, PresentClient, TopicPage,
};
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// The name of the engine.
const NAME: &str = "nats";

/// An engine over NATS. Dropping it is like [`close`](Engine::close).
pub struct NatsEngine {
    event_loop: EventLoop,
    queue: Arc<EventQueue>,
    status: Arc<Mutex<EngineStatus>>,
}

impl NatsEngine {
    /// Starts an engine that hands on to `sink`, on a loop of this group. It connects, and connects again, by itself.
    ///
    /// # Errors
    /// The options cannot work.
    pub fn open(
        options: NatsOptions,
        limits: HistoryLimits,
        loops: &EventLoopGroup,
        sink: Arc<dyn EngineSink>,
    ) -> Result<Self, NatsOptionError> {
        let tls = options.check()?;
        let event_loop = loops.next();
        let queue = Arc::new(EventQueue::default());
        let status = EngineStatus { description: "starting".to_owned(), ..EngineStatus::default() };
        let status = Arc::new(Mutex::new(status));
        let parts = (queue.clone(), status.clone());
        let task = EngineTask::new((options, tls), limits, event_loop.clone(), parts, sink);
        if event_loop.spawn_with(move || task.run()).is_err() {
            queue.close(); // The loop has ended: every call is told that the engine is closed.
        }
        Ok(Self { event_loop, queue, status })
    }

    /// Waits until the engine is available, at most for the time limit of a call.
    #[must_use]
    pub fn connected(&self) -> EngineFuture<()> {
        self.call(EngineCall::WaitAvailable)
    }

    fn push(&self, call: EngineCall) {
        self.queue.push(EngineEvent::Call(call));
    }

    fn call<T: Send + 'static>(
        &self,
        make: impl FnOnce(CallPromise<T>) -> EngineCall,
    ) -> EngineFuture<T> {
        let (promise, future) = self.event_loop.new_promise();
        self.push(make(promise));
        Box::pin(async move {
            // The promise was dropped: nobody takes events any more.
            future.await.unwrap_or_else(|_| Err(unavailable("it is closed")))
        })
    }
}

impl fmt::Debug for NatsEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsEngine").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Drop for NatsEngine {
    fn drop(&mut self) {
        self.push(EngineCall::Close(None));
    }
}

impl Engine for NatsEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn publish(
        &self,
        publications: Vec<NewPublication>,
    ) -> EngineFuture<Vec<Result<Position, EngineError>>> {
        self.call(|promise| EngineCall::Publish(publications, promise))
    }

    fn subscribe(&self, filter: &TopicFilter) -> EngineFuture<Position> {
        self.call(|promise| EngineCall::Subscribe(filter.clone(), promise))
    }

    fn unsubscribe(&self, filter: &TopicFilter) {
        self.push(EngineCall::Unsubscribe(filter.clone()));
    }

    fn history(&self, query: HistoryQuery) -> EngineFuture<HistoryPage> {
        self.call(|promise| EngineCall::History(query, promise))
    }

    fn enter(&self, topic: &Topic, member: &PresentClient) {
        self.push(EngineCall::Enter(topic.clone(), member.clone()));
    }

    fn leave(&self, topic: &Topic, client: &str) {
        self.push(EngineCall::Leave(topic.clone(), client.to_owned()));
    }

    fn presence(&self, topic: &Topic, limit: usize) -> EngineFuture<PresencePage> {
        self.call(|promise| EngineCall::Presence(topic.clone(), limit, promise))
    }

    fn topics(&self, limit: usize) -> EngineFuture<TopicPage> {
        self.call(|promise| EngineCall::Topics(limit, promise))
    }

    fn status(&self) -> EngineStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn close(&self) -> EngineFuture<()> {
        let closed = self.call(|promise| EngineCall::Close(Some(promise)));
        Box::pin(async move {
            let _ = closed.await; // One that is closed already answers so, too.
            Ok(())
        })
    }
}
