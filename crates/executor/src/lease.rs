//! What the handles of an executor, or of a group, have in common: the last to go ends it (E21).

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Held by every user handle of an executor or a group; the last to go ends them.
pub(crate) struct Lease {
    end: Box<dyn Fn() + Send + Sync>,
    is_void: AtomicBool,
    /// What is to be there as long as there are handles.
    kept: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Lease {
    pub(crate) fn new(end: impl Fn() + Send + Sync + 'static) -> Self {
        Self { end: Box::new(end), is_void: AtomicBool::new(false), kept: OnceLock::new() }
    }

    /// Keeps something alive as long as there are handles.
    pub(crate) fn keep(&self, kept: Arc<dyn Any + Send + Sync>) {
        let first = self.kept.set(kept).is_ok();
        debug_assert!(first, "a lease is made for one group");
    }

    /// Another lease has taken over: this one ends nothing.
    pub(crate) fn void(&self) {
        self.is_void.store(true, Ordering::Release);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_void.load(Ordering::Acquire) {
            (self.end)();
        }
    }
}
