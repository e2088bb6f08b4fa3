//! The executor of hyper's tasks.

use hyper::rt::Executor;
use waterwheel_channel::{Message, TaskScope};
use waterwheel_executor::Origin;

use crate::channel::AsyncChannel;

/// Runs hyper's tasks on the loop of a channel until the channel is closed: the streams of an HTTP/2 connection, or a
/// client's connection itself. Not `Send`, and neither are the futures.
///
/// A panic of a task is reported with the place that has made the executor, and ends that task: a stream of HTTP/2 is
/// reset, and the others go on. What is executed after the end of the channel is dropped.
#[derive(Clone, Debug)]
pub struct ScopeExecutor {
    scope: TaskScope,
    origin: Origin,
}

impl ScopeExecutor {
    /// Creates an executor whose tasks end with this channel.
    #[must_use]
    #[track_caller]
    pub fn of<In: Message, Out: Message>(connection: &AsyncChannel<In, Out>) -> Self {
        Self::new(connection.scope())
    }

    /// Creates an executor whose tasks end with this scope.
    #[must_use]
    #[track_caller]
    pub fn new(scope: &TaskScope) -> Self {
        Self { scope: scope.clone(), origin: Origin::here() }
    }
}

impl<F: Future + 'static> Executor<F> for ScopeExecutor {
    fn execute(&self, future: F) {
        self.scope.spawn_from(self.origin, future);
    }
}
