//! `StopFlag`: SIGINT and SIGTERM ask the scenario to come to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use waterwheel::channel::sleep;
use waterwheel::executor::Clock;

/// The longest time until a pause notices that the scenario is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// True once the scenario is to stop. The thread of the signals sets the flag, the loop reads it; it orders nothing else, so
/// relaxed accesses are enough.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks the scenario to stop.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once the scenario is to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for this time, or until the scenario is to stop.
    pub(crate) async fn pause(&self, time: Duration) {
        self.pause_until(time, || false).await;
    }

    /// Waits until `is_done`, for at most this time, or until the scenario is to stop. Returns the last answer of `is_done`.
    pub(crate) async fn pause_until(&self, time: Duration, is_done: impl Fn() -> bool) -> bool {
        wait_until(time, || is_done() || self.is_set()).await;
        is_done()
    }
}

/// Waits until `is_done`, for at most this time.
pub(crate) async fn wait_until(time: Duration, is_done: impl Fn() -> bool) {
    let end = Clock::Monotonic.now().plus(time);
    while !is_done() {
        let left = end.since(Clock::Monotonic.now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(LOOK)).await;
    }
}
