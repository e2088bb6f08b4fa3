//! Waking a loop: in its driver as a rule, or out of a pause.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waterwheel_executor::Unpark;

/// Ends the sleep of a loop, wherever it sleeps: a driver that has just failed is left alone for a
/// while, and the loop sleeps on a token meanwhile.
///
/// The loop sets `paused` before it announces its sleep, and whoever wakes it has read that
/// announcement: so the flag is seen by the one who has to act on it. A waker that comes late may
/// take the wrong way; then the loop is awake already, and returns early once.
pub(crate) struct LoopWaker {
    driver: Arc<dyn Unpark>,
    token: Arc<dyn Unpark>,
    paused: AtomicBool,
}

impl LoopWaker {
    pub(crate) fn new(driver: Arc<dyn Unpark>, token: Arc<dyn Unpark>) -> Self {
        Self { driver, token, paused: AtomicBool::new(false) }
    }

    /// From now on the loop sleeps on its token, or in its driver again.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
    }
}

impl Unpark for LoopWaker {
    fn unpark(&self) {
        if self.paused.load(Ordering::Acquire) {
            self.token.unpark();
        } else {
            self.driver.unpark();
        }
    }
}

impl fmt::Debug for LoopWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopWaker").field("paused", &self.paused).finish_non_exhaustive()
    }
}
