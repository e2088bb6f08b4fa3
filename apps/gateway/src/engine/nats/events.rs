//! The events of an engine, and the queue in which they wait for its task.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use waterwheel::channel::Channel;
use waterwheel::codec::NatsOperation;
use waterwheel::executor::{Error, Promise};

use super::link::server_info::ServerInfo;
use crate::engine::position::Position;
use crate::engine::publication::NewPublication;
use crate::engine::{
    EngineError, HistoryPage, HistoryQuery, PresencePage, PresentClient, TopicPage,
};
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// The promise of a call: dropping it tells the caller that the engine is closed.
pub(super) type CallPromise<T> = Promise<Result<T, EngineError>>;

/// The results of a batch of publications.
pub(super) type BatchResults = Vec<Result<Position, EngineError>>;

/// An event for the task of an engine.
pub(super) enum EngineEvent {
    /// A call of the gateway.
    Call(EngineCall),
    /// The outcome of a connect, with the number of the link.
    Connected(u64, Result<Channel, Error>),
    /// A server has greeted, and TLS is established if it is wanted.
    Greeted(u64, Box<ServerInfo>),
    /// Operations that a link has read.
    Operations(u64, Vec<NatsOperation>),
    /// A link has ended, with the reason.
    Lost(u64, String),
}

/// A call of the gateway.
pub(super) enum EngineCall {
    Publish(Vec<NewPublication>, CallPromise<BatchResults>),
    Subscribe(TopicFilter, CallPromise<Position>),
    Unsubscribe(TopicFilter),
    History(HistoryQuery, CallPromise<HistoryPage>),
    Enter(Topic, PresentClient),
    Leave(Topic, String),
    Presence(Topic, usize, CallPromise<PresencePage>),
    Topics(usize, CallPromise<TopicPage>),
    /// Waits until the engine is available.
    WaitAvailable(CallPromise<()>),
    Close(Option<CallPromise<()>>),
}

/// A queue of events. Any thread pushes; the task of the engine takes everything at once.
#[derive(Default)]
pub(super) struct EventQueue {
    state: Mutex<PendingEvents>,
}

#[derive(Default)]
struct PendingEvents {
    events: Vec<EngineEvent>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl EventQueue {
    /// Adds an event. After the end of the engine it is dropped, outside of the lock.
    pub(super) fn push(&self, event: EngineEvent) {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            drop(event);
            return;
        }
        state.events.push(event);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes all events, once there are some.
    pub(super) fn poll_take(&self, context: &Context<'_>) -> Poll<Vec<EngineEvent>> {
        let mut state = self.lock();
        if state.events.is_empty() {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(mem::take(&mut state.events))
    }

    /// Refuses further events, and returns those that were not taken.
    pub(super) fn close(&self) -> Vec<EngineEvent> {
        let mut state = self.lock();
        state.is_closed = true;
        mem::take(&mut state.events)
    }

    fn lock(&self) -> MutexGuard<'_, PendingEvents> {
        // No method panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
