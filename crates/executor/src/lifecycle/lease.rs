//! What the handles of an executor, or of a group, have in common: the last to go ends it (E21).

use std::sync::atomic::{AtomicBool, Ordering};

/// Held by every user handle of an executor or a group; the last to go ends them.
pub(crate) struct Lease {
    end: Box<dyn Fn() + Send + Sync>,
    is_void: AtomicBool,
}

impl Lease {
    pub(crate) fn new(end: impl Fn() + Send + Sync + 'static) -> Self {
        Self { end: Box::new(end), is_void: AtomicBool::new(false) }
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
