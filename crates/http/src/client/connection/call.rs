//! The caller's side of an exchange: a future of the head of the response.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use waterwheel_executor::Error;

use super::link::ConnectionLink;
use crate::body::incoming::Incoming;
use crate::protocol::error::MessageError;
use crate::protocol::response_decoder::ResponseHead;

/// The head of a response, and its body.
pub(in crate::client) struct ReceivedResponse {
    pub(in crate::client) head: ResponseHead,
    pub(in crate::client) body: Incoming,
    /// True if the connection has left HTTP: 101, or 2xx to CONNECT.
    pub(in crate::client) is_upgraded: bool,
}

/// Why an exchange has no response.
pub(in crate::client) enum CallFailure {
    /// The connection ended. True if it was used before and no byte of a response had come.
    Closed {
        cause: Option<Error>,
        was_idle: bool,
    },
    Malformed(MessageError),
    TooManyInterim,
    HeadTimeout(Duration),
    SendTimeout(Duration),
    /// The source of the request's body failed.
    Body(Error),
}

/// The outcome of an exchange on its way from the connection to the caller.
#[derive(Default)]
pub(super) struct CallOutcome {
    outcome: RefCell<Option<Result<ReceivedResponse, CallFailure>>>,
    waker: Cell<Option<Waker>>,
}

impl CallOutcome {
    /// Delivers the outcome, unless there is one.
    pub(super) fn complete(&self, outcome: Result<ReceivedResponse, CallFailure>) {
        let mut kept = self.outcome.borrow_mut();
        if kept.is_some() {
            return;
        }
        *kept = Some(outcome);
        drop(kept);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Completes a call whose request was never written: the connection ended in between.
pub(super) struct UnsentCall(pub(super) Option<Rc<CallOutcome>>);

impl Drop for UnsentCall {
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            outcome.complete(Err(CallFailure::Closed { cause: None, was_idle: true }));
        }
    }
}

/// A future of the response. Dropping it before the response has come closes the connection.
pub(in crate::client) struct ClientCall {
    link: Rc<ConnectionLink>,
    outcome: Rc<CallOutcome>,
    is_over: bool,
}

impl ClientCall {
    pub(super) fn new(link: Rc<ConnectionLink>, outcome: Rc<CallOutcome>) -> Self {
        Self { link, outcome, is_over: false }
    }
}

impl Future for ClientCall {
    type Output = Result<ReceivedResponse, CallFailure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.outcome.outcome.borrow_mut().take();
        match outcome {
            Some(outcome) => {
                self.is_over = true;
                Poll::Ready(outcome)
            }
            None => {
                let before = self.outcome.waker.replace(Some(cx.waker().clone()));
                drop(before);
                Poll::Pending
            }
        }
    }
}

impl Drop for ClientCall {
    fn drop(&mut self) {
        if !self.is_over {
            self.link.cancel(&self.outcome);
        }
    }
}
