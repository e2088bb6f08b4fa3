//! What a layer above hangs on its executors.

use std::any::Any;

/// Something of a layer above that belongs to an executor: attached when that is built
/// ([`EventExecutorBuilder::attach`](crate::EventExecutorBuilder::attach)), found by
/// [`CommandAccess::attachment`](crate::engine::CommandAccess::attachment).
pub trait Attached: Any + Send + Sync {
    /// How much the loop looks after that lasts, besides what waits in its queue: what a chooser adds to
    /// that. Asked for on any thread.
    fn load(&self) -> usize {
        0
    }
}
