//! The lease that all handles of an executor or a group share: dropping the last handle shuts it down (E21).

use std::sync::atomic::{AtomicBool, Ordering};

/// A lease shared by all user handles of an executor or of a group. Dropping the last handle calls `on_last_drop`.
pub(crate) struct HandleLease {
    on_last_drop: Box<dyn Fn() + Send + Sync>,
    is_disarmed: AtomicBool,
}

impl HandleLease {
    pub(crate) fn new(on_last_drop: impl Fn() + Send + Sync + 'static) -> Self {
        Self { on_last_drop: Box::new(on_last_drop), is_disarmed: AtomicBool::new(false) }
    }

    /// Makes the drop do nothing: another lease has taken over.
    pub(crate) fn disarm(&self) {
        self.is_disarmed.store(true, Ordering::Release);
    }
}

impl Drop for HandleLease {
    fn drop(&mut self) {
        if !self.is_disarmed.load(Ordering::Acquire) {
            (self.on_last_drop)();
        }
    }
}
