//! The end of an engine.

use std::sync::PoisonError;

use waterwheel::channel::Channel;
use waterwheel::codec::{NatsMessage, NatsOperation};
use waterwheel::executor::Nanos;

use super::events::{CallPromise, EngineCall, EngineEvent};
use super::link::states::NatsLinkState;
use super::requests::unavailable;
use super::task::EngineTask;
use crate::engine::EngineStatus;

/// The end of an engine under way.
pub(super) struct Closing {
    pub(super) promises: Vec<CallPromise<()>>,
    pub(super) until: Nanos,
}

impl EngineTask {
    /// True if the engine is to end: everything that was acknowledged is handed on, or cannot be.
    pub(super) fn may_end(&self) -> bool {
        let Some(closing) = &self.closing else { return false };
        let is_handed_on =
            self.batches.is_empty() && self.log.last().sequence >= self.reader.acknowledged;
        is_handed_on || self.link.state < NatsLinkState::Loading || closing.until <= self.now
    }

    /// Ends the engine: drops the connection and the sink, fails what waits, and tells those that closed it.
    pub(super) fn end(mut self) {
        self.send(NatsOperation::Publish(NatsMessage::new(
            self.names.presence_of(self.presence.me()),
            self.presence.farewell(),
        )));
        self.link.flush();
        self.close_link();
        self.sink = None;
        let closed = EngineStatus {
            description: "closed".to_owned(),
            reconnects: self.link.reconnects,
            ..EngineStatus::default()
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = closed;
        let untaken = self.queue.close();
        while let Some(awaited) = self.requests.take_first() {
            self.fail_request(awaited, "it was closed");
        }
        for call in self.calls.take_all() {
            self.fail_call(call, unavailable("it was closed"));
        }
        for (_, promise) in self.until_available.drain(..) {
            promise.set_success(Err(unavailable("it was closed")));
        }
        let promises = self.closing.take().map(|closing| closing.promises).unwrap_or_default();
        for promise in promises {
            promise.set_success(Ok(()));
        }
        for event in untaken {
            match event {
                EngineEvent::Call(EngineCall::Close(Some(promise))) => {
                    promise.set_success(Ok(()));
                }
                EngineEvent::Connected(_, Ok(channel)) => Channel::close_without_future(&channel),
                _ => {} // The drop of its promise tells the caller.
            }
        }
    }
}
