//! The waker of the pump, for code that does not have the context of its poll.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// Wakes the pump, from any thread. The pump puts its waker in at its first poll and then looks at `has_cancelled`,
/// under the same lock: a cancel that finds no waker is seen by that poll.
#[derive(Default)]
pub(super) struct PumpWaker {
    waker: Mutex<Option<Waker>>,
    has_cancelled: AtomicBool,
}

impl PumpWaker {
    pub(super) fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn on_cancelled(&self) {
        self.has_cancelled.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn set_waker(&self, waker: &Waker) {
        let mut current = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_none() {
            *current = Some(waker.clone());
        }
    }

    /// True if a write was cancelled since the last call.
    pub(super) fn take_cancelled(&self) -> bool {
        self.has_cancelled.load(Ordering::Acquire)
            && self.has_cancelled.swap(false, Ordering::AcqRel)
    }
}
