//! The end of a group: when all of its children have terminated.

use std::sync::{Mutex, PoisonError};

use crate::engine::current::ExecutorId;
use crate::error::Error;
use crate::promise::{Promise, SharedFuture, promise_of_end};

/// Counts the children that have terminated. Children and group hold it; it holds neither, so it
/// completes whoever is gone first.
pub(crate) struct GroupEnd(Mutex<Ending>);

struct Ending {
    /// Who has not ended.
    left: Vec<ExecutorId>,
    cause: Option<Error>,
    promise: Option<Promise<()>>,
}

impl GroupEnd {
    pub(crate) fn new(
        children: impl Iterator<Item = ExecutorId>,
        group: ExecutorId,
    ) -> (Self, SharedFuture<()>) {
        let (promise, termination) = promise_of_end(group);
        let ending = Ending { left: children.collect(), cause: None, promise: Some(promise) };
        (Self(Mutex::new(ending)), termination)
    }

    /// One more is waited for; `false` if the group has terminated.
    pub(crate) fn enter(&self, child: ExecutorId) -> bool {
        let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ending.left.push(child);
        ending.promise.is_some()
    }

    /// Saying it twice of the same child does no harm.
    pub(crate) fn child_ended(&self, child: ExecutorId, cause: Option<&Error>) {
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
