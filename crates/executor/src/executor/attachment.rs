//! Values that a layer above attaches to its executors.

use std::any::Any;

/// A value of the layer above that belongs to an executor: attached by the builder
/// ([`EventExecutorBuilder::attach`](crate::EventExecutorBuilder::attach)), found by
/// [`CommandAccess::attachment`](crate::engine::CommandAccess::attachment).
pub trait ExecutorAttachment: Any + Send + Sync {
    /// Returns the lasting load of the loop, such as its open connections, which choosers add to its queued
    /// commands. Called on any thread.
    fn load(&self) -> usize {
        0
    }
}
