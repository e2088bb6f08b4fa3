//! The termination of a group: it completes when all children have terminated.

use std::sync::{Mutex, PoisonError};

use crate::engine::current::ExecutorId;
use crate::error::Error;
use crate::promise::{Promise, SharedFuture, promise_for_termination};

/// Tracks the children that have not terminated. Children and group share it, and it keeps neither alive, so it
/// completes whichever is dropped first.
pub(crate) struct GroupTermination(Mutex<PendingChildren>);

struct PendingChildren {
    /// The children that have not terminated.
    left: Vec<ExecutorId>,
    cause: Option<Error>,
    promise: Option<Promise<()>>,
}

impl GroupTermination {
    pub(crate) fn new(
        children: impl Iterator<Item = ExecutorId>,
        group: ExecutorId,
    ) -> (Self, SharedFuture<()>) {
        let (promise, termination) = promise_for_termination(group);
        let ending =
            PendingChildren { left: children.collect(), cause: None, promise: Some(promise) };
        (Self(Mutex::new(ending)), termination)
    }

    /// Adds a child to wait for. Returns false if the group has terminated.
    pub(crate) fn add_child(&self, child: ExecutorId) -> bool {
        let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ending.left.push(child);
        ending.promise.is_some()
    }

    /// Records that a child has terminated. A second call for the same child changes nothing.
    pub(crate) fn on_child_terminated(&self, child: ExecutorId, cause: Option<&Error>) {
        let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ending.left.retain(|left| *left != child);
        if ending.cause.is_none() {
            ending.cause = cause.cloned();
        }
        if ending.left.is_empty()
            && let Some(promise) = ending.promise.take()
        {
            let outcome = ending.cause.take().map_or(Ok(()), Err);
            drop(ending);
            promise.complete(outcome);
        }
    }
}
