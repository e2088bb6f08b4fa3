//! The waker of a loop, which sleeps in its driver or, during a pause, on a park token.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waterwheel_executor::Unpark;

/// Ends the sleep of a loop. Normally the loop sleeps in its driver; after a failure the driver is paused for a
/// while, and the loop sleeps on a park token instead.
///
/// The loop sets `paused` before it announces its sleep, and a waking thread has read the announcement, so it sees the
/// flag. A late call may unpark the wrong one of driver and park token; the loop is awake by then,
/// and one later sleep returns early.
pub(crate) struct LoopWaker {
    driver_waker: Arc<dyn Unpark>,
    pause_unparker: Arc<dyn Unpark>,
    paused: AtomicBool,
}

impl LoopWaker {
    pub(crate) fn new(driver_waker: Arc<dyn Unpark>, pause_unparker: Arc<dyn Unpark>) -> Self {
        Self { driver_waker, pause_unparker, paused: AtomicBool::new(false) }
    }

    /// Sets whether the loop sleeps on its park token instead of in its driver.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
    }
}

impl Unpark for LoopWaker {
    fn unpark(&self) {
        if self.paused.load(Ordering::Acquire) {
            self.pause_unparker.unpark();
        } else {
            self.driver_waker.unpark();
        }
    }
}

impl fmt::Debug for LoopWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopWaker").field("paused", &self.paused).finish_non_exhaustive()
    }
}
